// Sets the chosen theme before anything is painted. A plain script in the head: a module would come too late.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("tally.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // storage may be forbidden; then the choice of the system applies
  }
})();
