# steps.dat: for cell c and arm a (both from 0) index 2 (c n_arms + a) holds the steps of every trial
# (block, x, step, milliseconds), the next index the trials' medians (block, x, milliseconds).
set multiplot layout n_cells, 1 title heading font ',15' \
    margins char 11, char 3, screen 70.0 / height, screen 1 - 96.0 / height \
    spacing char 0, screen 104.0 / height
set xlabel 'block'
set ylabel 'step time, ms'
set xrange [first_block - 0.6 : last_block + 0.6]
set xtics first_block, max(1, ceil((last_block - first_block) / 12.0)), last_block
set grid noxtics ytics
do for [c = 1 : n_cells] {
    panel = cell[c]
    @panel_label
    set yrange [y_low[c] : y_high[c]]
    if (c == 1) { @panel_key } else { set key off }
    plot for [a = 1 : n_arms] 'steps.dat' index 2 * ((c - 1) * n_arms + a - 1) using 2:4 \
             with points pt 7 ps 0.22 lc rgb pale[a] notitle, \
         for [a = 1 : n_arms] 'steps.dat' index 2 * ((c - 1) * n_arms + a - 1) + 1 using 2:3 \
             with points pt 7 ps 0.95 lc rgb 'white' notitle, \
         for [a = 1 : n_arms] 'steps.dat' index 2 * ((c - 1) * n_arms + a - 1) + 1 using 2:3 \
             with points pt 7 ps 0.7 lc rgb color[a] title arm[a]
}
unset multiplot
