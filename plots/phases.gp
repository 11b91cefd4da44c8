# phases.dat: for each of n_phases phases one index (row, from, to) in seconds, stacked without
# warm-up, steady steps, evaluation and checkpoints; then the same with all of them; then the ends
# of both (row, end, text).
set multiplot layout 2, 1 title heading font ',15' \
    margins char left_space, char 8, screen 72.0 / height, screen 1 - 138.0 / height \
    spacing char 0, screen 106.0 / height
set yrange [n_rows + 0.6 : 0.4]
set ytics ()
do for [i = 1 : n_rows] { set ytics add (row[i] i) }
set ytics scale 0
set border 1
set grid xtics noytics
set style fill solid border rgb 'white'
do for [half = 1 : 2] {
    first = (half - 1) * n_phases
    panel = half == 1 ? 'starting and ending' : 'whole trial'
    @panel_label
    set xlabel 'seconds (median over the blocks)'
    set xrange [0 : end[half] * 1.02]
    set key off
    plot for [p = 1 : n_phases] 'phases.dat' index first + p - 1 \
             using (0.5 * ($2 + $3)):1:2:3:($1 - 0.36):($1 + 0.36) with boxxyerror \
             lc rgb phase_color[p] notitle, \
         'phases.dat' index 2 * n_phases + half - 1 using 2:1:3 with labels left offset 0.6, 0 \
             textcolor rgb '#3a434b' notitle
}
# The key is a panel of its own: it cannot lie over bars.
set origin 0, 0
set size 1, 1
set lmargin at screen 0.02
set rmargin at screen 0.98
set tmargin at screen 0.99 - 26.0 / height
set bmargin at screen 0.985 - 100.0 / height
unset border
unset tics
unset label 1
unset xlabel
unset grid
set xrange [0 : 1]
set yrange [0 : 1]
set key center center horizontal maxcols 7 width 1
plot for [p = 1 : n_phases] NaN with boxes fs solid noborder lc rgb phase_color[p] title phase[p]
unset multiplot
