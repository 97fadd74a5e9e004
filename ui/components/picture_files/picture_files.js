import { begin, el, give } from "../gaze.shared/shared.js";

export default function ({ data, parentElement }) {
  const { root, meta } = begin(parentElement, data), spoken = el("div", "failed");
  spoken.role = "status";
  root.replaceChildren(...meta.pictures.map(({ title, file, svg }) => el("div", "picture", el("span", "title", title), ...["png", "svg"].map(kind => {
    const button = Object.assign(el("button", "save", kind.toUpperCase()), { type: "button" });
    button.ariaLabel = `${title}, ${kind.toUpperCase()}`;
    button.onclick = () => give(file, kind, svg).catch(() => spoken.replaceChildren(meta.words.failed));
    return button;
  }))), spoken);
}
