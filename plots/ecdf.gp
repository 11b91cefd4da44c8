# ecdf.dat: for cell c and arm a (both from 0) index c n_arms + a: start-up in milliseconds, share of
# trials that had started by then.
set multiplot layout n_cells, 1 title heading font ',15' \
    margins char 11, char 3, screen 70.0 / height, screen 1 - 96.0 / height \
    spacing char 0, screen 104.0 / height
set xlabel 'start-up, ms'
set ylabel 'share of trials, %'
set yrange [0 : 103]
set ytics 0, 25, 100
set xrange [x_low : x_high]
do for [c = 1 : n_cells] {
    panel = cell[c]
    @panel_label
    if (c == 1) { @panel_key } else { set key off }
    plot for [a = 1 : n_arms] 'ecdf.dat' index (c - 1) * n_arms + a - 1 using 1:2 with steps lw 1.8 \
             lc rgb color[a] title arm[a], \
         for [a = 1 : n_arms] 'ecdf.dat' index (c - 1) * n_arms + a - 1 every ::1 using 1:2 \
             with points pt 7 ps 0.45 lc rgb color[a] notitle
}
unset multiplot
