"""Draws the pictures of the page "Picture": small shapes for the tiny model, and the four that are shipped.

    PYTHONPATH=. .venv/bin/python assets/pictures/draw.py

Everything is drawn here, by PIL, from the seed below; nothing is anybody's photograph. Written on 2026-12-01.
"""

import math
import random
from pathlib import Path

from PIL import Image, ImageDraw

HERE = Path(__file__).parent
SEED = 20261201
SHAPES = ("circle", "square", "triangle", "cross")
RED = (214, 48, 49)
OTHERS = ((45, 108, 201), (39, 152, 82), (233, 183, 40), (130, 78, 184))
GROUNDS = ((250, 247, 240), (236, 241, 246), (243, 238, 232), (228, 235, 226))
SIDE, FINE = 64, 4  # pixels of a picture for the tiny model; drawn larger, then made smaller, for soft edges


def shape(pen: ImageDraw.ImageDraw, name: str, x: float, y: float, radius: float, turn: float, colour: tuple) -> None:
    """Draw one shape round (x, y), turned by an angle in radians."""
    if name == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        return
    half, thin = radius * 0.88, radius * 0.34
    corners = {
        "square": [(-half, -half), (half, -half), (half, half), (-half, half)],
        "triangle": [(radius * math.sin(a), -radius * math.cos(a)) for a in (0, 2.094, 4.189)],
        "cross": [
            *((-thin, -radius), (thin, -radius), (thin, -thin), (radius, -thin), (radius, thin), (thin, thin)),
            *((thin, radius), (-thin, radius), (-thin, thin), (-radius, thin), (-radius, -thin), (-thin, -thin)),
        ],
    }[name]
    cos, sin = math.cos(turn), math.sin(turn)
    pen.polygon([(x + cos * dx - sin * dy, y + sin * dx + cos * dy) for dx, dy in corners], fill=colour)


def scene(draw: random.Random, size: int = SIDE) -> tuple[Image.Image, int, tuple[float, float, float]]:
    """Draw one to four shapes that do not touch, exactly one of them red.

    Args:
        draw: Where chance comes from.
        size: Pixels of a side.

    Returns:
        The picture, the red shape's number in ``SHAPES``, and where it is: x, y, radius, as shares of a side.
    """
    big = size * FINE
    picture = Image.new("RGB", (big, big), draw.choice(GROUNDS))
    pen = ImageDraw.Draw(picture)
    placed: list[tuple[float, float, float]] = []
    for _ in range(draw.randint(1, 4)):
        for _ in range(40):
            radius = draw.uniform(0.12, 0.19)
            x, y = (draw.uniform(radius + 0.02, 0.98 - radius) for _ in range(2))
            if all(math.hypot(x - a, y - b) > radius + r + 0.03 for a, b, r in placed):
                placed.append((x, y, radius))
                break
    names = [draw.randrange(len(SHAPES)) for _ in placed]
    for n, ((x, y, radius), name) in enumerate(zip(placed, names, strict=True)):
        colour = tuple(min(255, max(0, c + draw.randint(-14, 14))) for c in (draw.choice(OTHERS) if n else RED))
        shape(pen, SHAPES[name], x * big, y * big, radius * big, draw.uniform(-0.3, 0.3), colour)
    return picture.resize((size, size), Image.Resampling.LANCZOS), names[0], placed[0]


def _shapes() -> Image.Image:
    picture = Image.new("RGB", (448 * 2, 448 * 2), GROUNDS[0])
    pen = ImageDraw.Draw(picture)
    for name, x, y, radius, turn, colour in (
        ("triangle", 0.66, 0.32, 0.18, 0.1, RED),
        ("circle", 0.25, 0.26, 0.15, 0, OTHERS[0]),
        ("square", 0.27, 0.70, 0.16, 0.2, OTHERS[1]),
        ("cross", 0.74, 0.76, 0.14, 0, OTHERS[2]),
    ):
        shape(pen, name, x * 896, y * 896, radius * 896, turn, colour)
    return picture


def _pair() -> Image.Image:
    picture = Image.new("RGB", (448 * 2, 448 * 2), GROUNDS[1])
    pen = ImageDraw.Draw(picture)
    shape(pen, "circle", 0.28 * 896, 0.68 * 896, 0.18 * 896, 0, RED)
    shape(pen, "circle", 0.70 * 896, 0.30 * 896, 0.18 * 896, 0, OTHERS[3])
    return picture


def _cat() -> Image.Image:
    picture = Image.new("RGB", (1080, 810), (204, 228, 244))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, 560, 1080, 810), fill=(132, 178, 96))
    fur, dark = (232, 150, 66), (92, 56, 30)
    pen.arc((150, 330, 420, 680), 60, 250, fill=fur, width=42)
    pen.ellipse((280, 380, 640, 720), fill=fur)
    pen.ellipse((460, 200, 740, 460), fill=fur)
    for ear in ([(486, 270), (500, 130), (590, 215)], [(714, 270), (704, 130), (612, 215)]):
        pen.polygon(ear, fill=fur)
    for x in (548, 652):
        pen.ellipse((x - 20, 300, x + 20, 346), fill=(250, 250, 240))
        pen.ellipse((x - 9, 306, x + 9, 344), fill=(30, 40, 30))
    pen.polygon([(586, 366), (616, 366), (601, 386)], fill=(214, 96, 96))
    for dy in (-10, 8, 26):
        pen.line((500, 384 + dy, 410, 376 + 2 * dy), fill=dark, width=4)
        pen.line((702, 384 + dy, 790, 376 + 2 * dy), fill=dark, width=4)
    for x in (330, 520):
        pen.ellipse((x, 660, x + 110, 730), fill=fur)
    pen.ellipse((810, 580, 950, 720), fill=RED)
    pen.arc((830, 560, 990, 740), 120, 250, fill=(250, 240, 230), width=8)
    return picture


def _harbour() -> Image.Image:
    picture = Image.new("RGB", (1280, 800), (247, 214, 170))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((930, 120, 1090, 280), fill=(250, 240, 200))
    pen.rectangle((0, 470, 1280, 800), fill=(62, 116, 152))
    for y, shift in ((540, 0), (610, 90), (690, 30), (760, 120)):
        for x in range(-150 + shift, 1300, 240):
            pen.arc((x, y, x + 130, y + 40), 200, 340, fill=(120, 168, 196), width=6)
    pen.polygon([(120, 470), (120, 250), (160, 190), (200, 250), (200, 470)], fill=(238, 238, 232))
    for y in (290, 380):
        pen.rectangle((120, y, 200, y + 40), fill=RED)
    pen.rectangle((140, 200, 180, 246), fill=(250, 220, 110))
    pen.polygon([(520, 560), (900, 560), (830, 660), (590, 660)], fill=(120, 66, 40))
    pen.rectangle((694, 190, 708, 560), fill=(84, 52, 34))
    pen.polygon([(714, 200), (714, 520), (890, 520)], fill=(250, 246, 236))
    pen.polygon([(688, 240), (688, 520), (560, 520)], fill=OTHERS[0])
    return picture


SHIPPED = {"shapes": _shapes, "pair": _pair, "cat": _cat, "harbour": _harbour}


def main() -> None:
    """Write the shipped pictures beside this script."""
    for name, make in SHIPPED.items():
        picture = make()
        small = picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.LANCZOS)
        small.save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
