"""Draws figures as SVG: lines with medians and ranges, dots in columns, or bars."""
import math, statistics
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 70, 60, 50, 190
COLOURS = ('#1f77b4', '#d62728', '#2ca02c', '#9467bd')


def steps(top, most=6):
    """Multiples of 1, 2 or 5 times a power of ten, from zero to `top` or just above it, at most so
    many more than one."""
    power = 10.0 ** math.floor(math.log10(top / most))
    size = next(power * m for m in (1, 2, 5, 10) if power * m * most >= top)
    return [i * size for i in range(math.ceil(top / size) + 1)]


def lines(path, title, xlabel, ylabel, xs, series):
    """Writes a chart. xs: labels along the x axis, evenly spaced; series: side -> a list of rounds'
    figures for each x."""
    ticks = steps(max(max(runs) for points in series.values() for runs in points))
    x = lambda i: LEFT + (WIDTH - LEFT - RIGHT) * (i + 0.5) / len(xs)
    y = lambda v: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * v / ticks[-1]
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" '
        'font-size="12">'
        % (WIDTH, HEIGHT), '<rect width="100%" height="100%" fill="white"/>'
    ]

    def text(px, py, what, anchor='middle', more=''):
        out.append('<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' %
                   (px, py, anchor, more, escape(str(what))))

    def line(x1, y1, x2, y2, colour, width=1.0):
        out.append(
            '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>' %
            (x1, y1, x2, y2, colour, width))

    text(WIDTH / 2, 24, title, more=' font-size="14"')
    for v in ticks:
        line(LEFT, y(v), WIDTH - RIGHT, y(v), '#dddddd')
        text(LEFT - 8, y(v) + 4, '%g' % v, 'end')
    for i, label in enumerate(xs):
        text(x(i), HEIGHT - BOTTOM + 18, label)
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, xlabel)
    text(18, (TOP + HEIGHT - BOTTOM) / 2,
         ylabel,
         more=' transform="rotate(-90 18 %.1f)"' % ((TOP + HEIGHT - BOTTOM) / 2))
    for n, (side, points) in enumerate(series.items()):
        colour, medians = COLOURS[n % len(COLOURS)], [statistics.median(runs) for runs in points]
        for i, runs in enumerate(points):
            line(x(i), y(min(runs)), x(i), y(max(runs)), colour)
            out.append(
                '<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x(i), y(medians[i]), colour))
        for i in range(1, len(points)):
            line(x(i - 1), y(medians[i - 1]), x(i), y(medians[i]), colour, 2)
        line(WIDTH - RIGHT + 15, TOP + 10 + 22 * n, WIDTH - RIGHT + 35, TOP + 10 + 22 * n, colour,
             2)
        text(WIDTH - RIGHT + 42, TOP + 14 + 22 * n, side, 'start')
    out.append('</svg>\n')
    with open(path, 'w') as f:
        f.write('\n'.join(out))


def dots(path, title, xlabel, columns):
    """Writes a chart of columns side by side: title of the column -> row -> side -> figure; a row
    is a line, a side a colour."""
    colours = ('#000000', ) + COLOURS + ('#ff7f0e', '#8c564b', '#17becf')
    left, width, step, top = 250, 260, 22, 64
    sides = list(
        dict.fromkeys(
            side for rows in columns.values() for points in rows.values() for side in points))
    ticks = steps(
        max(v for rows in columns.values() for points in rows.values() for v in points.values()))
    height = top + step * max(map(len, columns.values())) + 50
    total = len(columns) * (left + width) + 20
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" '
        'font-size="12">'
        % (total, height), '<rect width="100%" height="100%" fill="white"/>'
    ]

    def text(px, py, what, anchor='middle', more=''):
        out.append('<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' %
                   (px, py, anchor, more, escape(str(what))))

    text(total / 2, 20, title, more=' font-size="14"')
    for n, (column, rows) in enumerate(columns.items()):
        start = n * (left + width) + left
        x = lambda v: start + (width - 20) * v / ticks[-1]
        text(start + width / 2, 44, column, more=' font-weight="bold"')
        for v in ticks:
            out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dddddd"/>' %
                       (x(v), top - 10, x(v), top + step * (len(rows) - 1) + 10))
            text(x(v), top + step * len(rows) + 6, '%g' % v)
        text(start + width / 2, top + step * len(rows) + 24, xlabel)
        for i, (row, points) in enumerate(rows.items()):
            text(start - 10, top + step * i + 4, row, 'end')
            for side, v in reversed(points.items()):
                out.append('<circle cx="%.1f" cy="%d" r="%d" fill="%s"/>' %
                           (x(v), top + step * i, 5 if side == sides[0] else 3,
                            colours[sides.index(side) % len(colours)]))
    for i, side in enumerate(sides):
        out.append('<circle cx="%d" cy="%d" r="4" fill="%s"/>' %
                   (20 + 100 * i, height - 14, colours[i % len(colours)]))
        text(30 + 100 * i, height - 10, side, 'start')
    out.append('</svg>\n')
    with open(path, 'w') as f:
        f.write('\n'.join(out))


def bars(path, title, rows):
    """Writes a chart of bars: label -> how many times as fast."""
    left, width, step, top = 370, 330, 30, 42
    ticks, height = steps(max(rows.values())), top + step * len(rows) + 34
    x = lambda v: left + width * v / ticks[-1]
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" '
        'font-size="12">'
        % (left + width + 60, height), '<rect width="100%" height="100%" fill="white"/>'
    ]

    def text(px, py, what, anchor, more=''):
        out.append('<text x="%d" y="%d" text-anchor="%s"%s>%s</text>' %
                   (px, py, anchor, more, escape(what)))

    text((left + width + 60) / 2, 22, title, 'middle', ' font-size="14"')
    for v in ticks:
        out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#dddddd"/>' %
                   (x(v), top, x(v), height - 34))
        text(x(v), height - 18, '%g' % v, 'middle')
    out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#555555" stroke-dasharray="4 3"/>' %
               (x(1), top, x(1), height - 34))
    for i, (label, v) in enumerate(rows.items()):
        text(left - 10, top + step * i + 20, label, 'end')
        out.append('<rect x="%d" y="%d" width="%d" height="18" fill="%s"/>' %
                   (left, top + step * i + 6, x(v) - left, COLOURS[0]))
        text(x(v) + 6, top + step * i + 20, '%.1f ×' % v, 'start')
    out.append('</svg>\n')
    with open(path, 'w') as f:
        f.write('\n'.join(out))
