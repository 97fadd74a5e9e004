export default function ({ data, parentElement }) {
  const { root, meta } = begin(parentElement, data), spoken = el("div", "failed");
  spoken.role = "status";
  async function give(file, kind, svg) {
    let blob = new Blob([svg], { type: "image/svg+xml" });
    if (kind === "png") {
      const image = new Image(), address = URL.createObjectURL(blob);
      image.src = address;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      blob = await new Promise(done => canvas.toBlob(done, "image/png"));
    }
    save(blob, `${file}.${kind}`);
  }
  root.replaceChildren(...meta.pictures.map(({ title, file, svg }) => el("div", "picture", el("span", "title", title), ...["png", "svg"].map(kind => {
    const button = Object.assign(el("button", "save", kind.toUpperCase()), { type: "button" });
    button.ariaLabel = `${title}, ${kind.toUpperCase()}`;
    button.onclick = () => give(file, kind, svg).catch(() => spoken.replaceChildren(meta.words.failed));
    return button;
  }))), spoken);
}
