/* Runs before the first paint: a stored choice of theme wins over the system's; ?theme=dark wins over both. */
(function () {
  "use strict";
  var asked = new URLSearchParams(location.search).get("theme");
  var stored = null;
  try { stored = localStorage.getItem("berth-theme"); } catch (error) { /* storage is off: follow the system */ }
  var theme = asked === "dark" || asked === "light" ? asked : stored;
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
})();
