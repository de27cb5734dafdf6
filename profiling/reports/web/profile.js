// The rooflines of a profile page, drawn by roofline.js, which stands before this script.
const plots = JSON.parse(document.getElementById("data").textContent);
for (const place of document.querySelectorAll("[data-plot]")) mount(place, plots[Number(place.dataset.plot)], {});
