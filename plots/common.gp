# What all plots share: terminal, output, lines, colours. ncbench writes the variables in front of
# this file: name, width, height, heading, subheading, and what the plot needs.
#   gnuplot steps.gp                          → steps.svg
#   gnuplot -e "format = 'png'" steps.gp      → steps.png
set encoding utf8
set datafile missing '?'
if (!exists("format")) format = 'svg'
if (format eq 'png') {
    if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
        set terminal pngcairo noenhanced size 1.75 * width, 1.75 * height fontscale 1.75 \
            linewidth 1.75 pointscale 1.75 font 'sans,10' background rgb 'white'
    } else {
        set terminal png noenhanced truecolor size 1.5 * width, 1.5 * height small background rgb 'white'
    }
} else {
    set terminal svg noenhanced size width, height dynamic font 'Helvetica,Arial,sans-serif,13' \
        linewidth 1 background rgb 'white' name name
}
set output name.'.'.format

set style line 1 lc rgb '#d0d5da' lw 0.6
set style line 2 lc rgb '#5b6670' lw 1.2 dt (6, 4)
set border 3 lc rgb '#8a949d' lw 0.8
set tics nomirror out scale 0.5 textcolor rgb '#3a434b'
set grid ls 1
set title font ',13' textcolor rgb '#1c2329' offset 0, -0.4
set xlabel textcolor rgb '#3a434b'
set ylabel textcolor rgb '#3a434b'
set key textcolor rgb '#3a434b' samplen 1.5
set format '%g'
# A panel's name stands above its left edge; the key of a picture with panels has a line of its own
# under the heading.
panel_label = "set label 1 panel at graph 0, graph 1 left offset 0, 0.8 textcolor rgb '#1c2329'"
panel_key = 'set key at screen 0.5, screen (1 - 52.0 / height) center center horizontal width 1'
# Margins of a picture in character units, so that panels line up.
set lmargin 11
set rmargin 3
