"use strict";
// A table wider than the page is scrolled by the theme's frame around it: the keyboard must reach it too.
addEventListener("load", () => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) frame.tabIndex = 0;
});
