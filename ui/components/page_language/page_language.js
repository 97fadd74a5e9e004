import { unpack } from "../gaze.shared/shared.js";

export default function ({ data }) {
  const { lang, present } = unpack(data).meta;
  const page = document.documentElement;
  page.lang = lang;                             // screen readers and hyphenation follow it; Streamlit leaves "en" for good
  page.toggleAttribute("data-presenter", present);
  document.cookie = `gaze_lang=${lang}; path=/; max-age=31536000; samesite=lax`;
  // The server completes the address of a page that was just opened. That is no step of the reader's: Back skips it.
  if (!history.gaze) {
    const push = history.pushState.bind(history);
    history.gaze = true;
    history.pushState = (state, title, url) => {
      const bare = !new URLSearchParams(location.search).has("present");
      const stays = url && new URL(url, location.href).pathname === location.pathname;
      if (bare && stays) history.replaceState(state, title, url); else push(state, title, url);
    };
  }
  // Linked once and for good, so that nothing flickers when the page changes; relative, so that a base path holds.
  for (const sheet of ["fonts/pretendard", "gaze"]) {
    if (document.getElementById(sheet)) continue;
    document.head.append(Object.assign(document.createElement("link"),
      { id: sheet, rel: "stylesheet", href: `app/static/${sheet}.css` }));
  }
}
