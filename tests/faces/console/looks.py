"""What a browser shows, held against WCAG: contrast of all text, names of all that can be pressed or filled in."""

from __future__ import annotations

from typing import TypedDict, cast

from playwright.sync_api import Page


class Looks(TypedDict):
    """What is wrong with a page; empty lists where nothing is."""

    faint: list[str]
    """Text with a contrast below 4.5, or below 3 where it is large."""
    unnamed: list[str]
    """Controls that a screen reader has no name for."""
    wider: int
    """Pixels that the page is wider than the window."""


_LOOK = r"""
() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return { r, g, b, a };
  };
  const over = (f, b) => ({ r: f.r * f.a + b.r * (1 - f.a), g: f.g * f.a + b.g * (1 - f.a),
                            b: f.b * f.a + b.b * (1 - f.a), a: 1 });
  const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * part(c.r) + 0.7152 * part(c.g) + 0.0722 * part(c.b);
  const line = (e) => { const found = []; for (let n = e; n; n = n.parentElement) found.push(n); return found; };
  const behind = (e) => {
    const node = e.closest("svg g.node");
    if (node) return parse(getComputedStyle(node.querySelector("rect")).fill);
    return line(e).reverse().map((n) => parse(getComputedStyle(n).backgroundColor))
      .reduce((below, above) => over(above, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const seen = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && e.getBoundingClientRect().width > 1;
  const faint = [];
  for (const e of document.querySelectorAll("body *")) {
    const field = e.matches("input:not(.q-select__focus-target), textarea");
    const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join(" ").trim();
    const text = field ? e.value || e.placeholder : own;
    if (!text || !seen(e) || e.matches("i.q-icon") || e.closest("[disabled], .disabled")) continue;
    const style = getComputedStyle(e), from = field && !e.value ? getComputedStyle(e, "::placeholder") : style;
    const colour = parse(e.closest("svg") ? style.fill : from.color), ground = behind(e);
    const clear = line(e).reduce((all, n) => all * Number(getComputedStyle(n).opacity), 1);
    const dim = from === style ? 1 : Number(from.opacity);
    const shown = over({ ...colour, a: colour.a * clear * dim }, ground);
    const [low, high] = [light(shown), light(ground)].sort((a, b) => a - b), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${e.tagName}.${e.className}: ${text.slice(0, 40)}`);
  }
  const name = (e) => [
    e.getAttribute("aria-label"), e.title, ...[...(e.labels ?? [])].map((l) => l.textContent),
    ...(e.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent),
    e.matches("input, textarea, select") ? "" : e.textContent, ...[...e.querySelectorAll("img")].map((i) => i.alt),
  ].join("").trim();
  const controls = "button, a[href], input:not(.hidden), textarea, select, [role=button], [role=tab], [role=checkbox]";
  const unnamed = [...document.querySelectorAll(controls)].filter((e) => seen(e) && !name(e))
    .map((e) => e.outerHTML.slice(0, 160));
  const root = document.documentElement;
  return { faint, unnamed, wider: Math.max(0, root.scrollWidth - root.clientWidth) };
}
"""


def looks(page: Page) -> Looks:
    return cast("Looks", page.evaluate(_LOOK))
