// The site is also read from a folder, where a browser fetches nothing: search results have no excerpts there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

addEventListener("DOMContentLoaded", () => {
  // What scrolls sideways can be scrolled by keyboard.
  for (const wide of document.querySelectorAll("pre, .table-wrapper, .drawing, .sidebar-scroll, .toc-scroll")) wide.tabIndex = 0;
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
});
