// Before anything is drawn, so that no other colours flash up.
try {
  const scheme = localStorage.getItem("kb-scheme");
  if (scheme === "dark" || scheme === "light") document.documentElement.dataset.scheme = scheme;
} catch {
  // A browser that keeps nothing: the system's colours.
}
