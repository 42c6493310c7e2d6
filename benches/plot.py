#!/usr/bin/env python3
"""Draws benches/figures.svg from the table of loads in benches/README.md: CPU time per byte, and the latency that one block in a hundred exceeds."""
import os
from html import escape

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = {"Tollgate": "#0b7a75", "bare loop": "#9aa5b1", "Icecast": "#c8553d"}
# What is drawn, from which column of the table, out of how many figures that stand in it.
PANELS = [("CPU-seconds per gigabyte", 2, 0), ("99th percentile of latency, ms", 5, 1)]
BAR, GAP, LEFT, WIDTH, HEAD = 14, 14, 210, 380, 64


def table():
    """Loads in their order, each with who carried it and the row's cells."""
    loads, load = {}, None
    lines = open(os.path.join(HERE, "README.md"), encoding="utf-8").read().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| viewers × bytes/s, write |"))
    for line in lines[begin + 2:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        load = cells[0] or load
        loads.setdefault(load, []).append((cells[1], cells))
    return loads


def text(x, y, what, **more):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x}" y="{y}"{attributes}>{escape(what)}</text>'


def value(cells, column, place):
    """`None` where a load was too much."""
    figures = cells[column].split(",")
    return float(figures[place]) if len(figures) > place and figures[place].strip()[:1].isdigit() else None


def panel(loads, title, column, place, left):
    values = [value(cells, column, place) for rows in loads.values() for _, cells in rows]
    most = max(figure for figure in values if figure is not None)
    parts, y = [text(left, HEAD - 14, title, font_weight="600")], HEAD
    for rows in loads.values():
        for who, cells in rows:
            figure = value(cells, column, place)
            length = max(1, (figure or 0) / most * (WIDTH - 60))
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{BAR - 2}" rx="2" fill="{COLOURS[who]}"/>')
            parts.append(text(f"{left + length + 5:.1f}", y + BAR - 4, cells[column] if figure is None else f"{figure:g}", font_size="11"))
            y += BAR
        y += GAP
    return parts, y


def main():
    loads = table()
    parts, height = [], 0
    for number, (title, column, place) in enumerate(PANELS):
        drawn, height = panel(loads, title, column, place, LEFT + number * (WIDTH + 20))
        parts += drawn
    y = HEAD
    for load, rows in loads.items():
        parts.append(text(LEFT - 12, y + len(rows) * BAR / 2 + 3, load, text_anchor="end"))
        y += len(rows) * BAR + GAP
    x = LEFT
    for who, colour in COLOURS.items():
        parts += [f'<rect x="{x}" y="16" width="12" height="12" rx="2" fill="{colour}"/>', text(x + 18, 26, who)]
        x += 110
    width = LEFT + len(PANELS) * (WIDTH + 20)
    with open(os.path.join(HERE, "figures.svg"), "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                   f'font-family="system-ui, sans-serif" font-size="13" fill="#24292f">\n<rect width="100%" height="100%" fill="#fff"/>\n')
        file.write("\n".join(parts) + "\n</svg>\n")


main()
