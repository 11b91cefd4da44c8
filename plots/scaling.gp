# scaling.dat: one index an arm: size, step time in s, tokens/s, speed-up, efficiency in percent.
set multiplot layout 1, 2 title heading font ',15' \
    margins char 9, char 3, screen 66.0 / height, screen 1 - 68.0 / height \
    spacing char 11, char 0
# Arms lie over each other where they are alike: later ones are drawn smaller, as rings.
ring(a) = 1.5 * 0.65 ** (a - 1)
set logscale x 2
set xlabel size_name
set xrange [size[1] / 1.15 : size[n_sizes] * 1.15]
set xtics ()
do for [i = 1 : n_sizes] { set xtics add (sprintf('%g', size[i]) size[i]) }
panel = 'speed-up'
@panel_label
set ylabel 'throughput, relative to '.sprintf('%g', size[1])
set logscale y 2
set yrange [0.9 * speedup_low : 1.15 * speedup_high]
set key left top reverse Left
plot x / size[1] with lines ls 2 title 'ideal', \
     for [a = 1 : n_arms] 'scaling.dat' index a - 1 using 1:4 with linespoints pt 7 \
         ps ring(a) lw 2 * ring(a) lc rgb color[a] title arm[a]
unset logscale y
panel = 'efficiency'
@panel_label
set ylabel '% of ideal'
set yrange [0 : 110 > efficiency_high ? 110 : efficiency_high * 1.08]
set ytics 0, 20
set key off
plot 100 with lines ls 2, \
     for [a = 1 : n_arms] 'scaling.dat' index a - 1 using 1:5 with linespoints pt 7 \
         ps ring(a) lw 2 * ring(a) lc rgb color[a]
unset multiplot
