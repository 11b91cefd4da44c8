# ratio.dat: index 0 holds every block (row, percent), index 1 the means (row, percent, low, high,
# margin low, margin high, colour). Rows count from the top.
set lmargin left_space
set rmargin right_space
set tmargin at screen 1 - 50.0 / height
set bmargin at screen 66.0 / height
set title heading font ',15' offset 0, 0.3
set xlabel axis
set yrange [n_rows + 0.6 : 0.4]
set xrange [x_low : x_high]
set ytics ()
set y2tics () scale 0
set y2range [n_rows + 0.6 : 0.4]
do for [i = 1 : n_rows] {
    set ytics add (row[i] i)
    set y2tics add (verdict[i] i)
}
set ytics scale 0
set xtics format '%+g %%'
set xtics add ('0 %%' 0)
set border 1
set grid xtics noytics
set arrow 1 from 0, graph 0 to 0, graph 1 nohead lc rgb '#5b6670' lw 1 front
set key off
plot 'ratio.dat' index 1 using (0.5 * ($5 + $6)):1:5:6:($1 - 0.4):($1 + 0.4) \
         with boxxyerror fs solid noborder lc rgb '#e8edf1', \
     'ratio.dat' index 0 using 2:($1 + 0.26) with points pt 7 ps 0.4 lc rgb '#779aa5af', \
     'ratio.dat' index 1 using 2:1:3:4:(color[int($7)]) with xerrorbars pt 7 ps 0.9 lw 2.2 \
         lc rgb variable
