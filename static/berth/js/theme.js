/* Set the theme before the first paint: ?theme=dark, then the stored choice, then the system setting. */
(() => {
  const requested = new URLSearchParams(location.search).get("theme");
  let stored = null;
  try {
    stored = localStorage.getItem("berth-theme");
  } catch {
    /* no storage: use the system setting */
  }
  const theme = requested === "dark" || requested === "light" ? requested : stored;
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
})();
