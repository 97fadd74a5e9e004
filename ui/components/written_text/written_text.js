export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta } = begin(parentElement, data), { prompt, titles, over, words } = meta;
  if (first) {
    kept.text = el("div", "text");
    kept.text.dir = "auto";
    root.replaceChildren(kept.text);
  }
  root.dataset.new = meta.new.length;
  const made = meta.new.map((text, i) => {
    const token = Object.assign(el("button", "new", text.replace(/\n/g, "\u21b5\n")), { type: "button", title: titles[i] });
    token.ariaLabel = `${text} \u2013 ${titles[i]}`;
    token.onclick = () => setTriggerValue("picked", i + 1);
    return token;
  });
  kept.text.replaceChildren(el("span", "prompt", prompt), ...made, ...(over ? [] : [el("span", "caret")]));
  return live(root, () => {});
}
