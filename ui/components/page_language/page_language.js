export default function ({ data }) {
  const { lang, present } = unpack(data).meta;
  const page = document.documentElement;
  page.lang = lang;                             // screen readers and hyphenation follow it; Streamlit leaves "en" for good
  page.toggleAttribute("data-presenter", present);
  document.cookie = `gaze_lang=${lang}; path=/; max-age=31536000; samesite=lax`;
  // Linked once and for good, so that nothing flickers when the page changes; relative, so that a base path holds.
  for (const sheet of ["fonts/pretendard", "gaze"]) {
    if (document.getElementById(sheet)) continue;
    document.head.append(Object.assign(document.createElement("link"),
      { id: sheet, rel: "stylesheet", href: `app/static/${sheet}.css` }));
  }
}
