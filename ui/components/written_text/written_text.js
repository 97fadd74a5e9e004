import { begin, el, live } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta } = begin(parentElement, data), { prompt, titles, over, words } = meta;
  if (first) {
    kept.text = el("div", "text");
    kept.text.dir = "auto";
    root.replaceChildren(kept.text);
  }
  root.dataset.new = meta.new.length;
  const made = meta.new.map((text, i) => {             // no button element: that would not break across lines
    const token = Object.assign(el("span", i % 2 ? "new odd" : "new", text.replace(/\n/g, "\u21b5\n")), { title: titles[i], tabIndex: 0, role: "button" });
    const pick = token.onclick = () => setTriggerValue("picked", i + 1);
    token.onkeydown = event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } };
    token.ariaLabel = `${text} \u2013 ${titles[i]}`;
    return token;
  });
  kept.text.replaceChildren(el("span", "prompt", prompt), ...made, ...(over ? [] : [el("span", "caret")]));
  return live(root, () => {});
}
