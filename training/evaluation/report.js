// The report's rooflines: the shared component, with a dot per build; a family's dots stand out while its name is pointed at.

const board = document.getElementById("roofs");
for (const [number, { plot, dots }] of JSON.parse(document.getElementById("roofline-data").textContent).entries()) {
  const figure = mount(board.children[number].querySelector(".plot"), plot, {}).element.firstElementChild;
  const place = scales(plot.axes, 720, 440);
  for (const dot of dots) {
    const { x, y } = inside(dot, place), circle = document.createElementNS(figure.namespaceURI, "circle");
    for (const [name, value] of Object.entries({ class: "dot", cx: x, cy: y, r: 4, fill: dot.colour })) circle.setAttribute(name, value);
    circle.dataset.group = dot.group;
    circle.append(document.createElementNS(figure.namespaceURI, "title"));
    circle.firstElementChild.textContent = dot.said;
    figure.append(circle);
  }
}
const dots = document.querySelectorAll(".dot");
for (const item of document.querySelectorAll("#legend span")) {
  const pick = (on) => {
    board.classList.toggle("dim", on);
    dots.forEach((dot) => dot.classList.toggle("on", on && dot.dataset.group === item.dataset.group));
  };
  item.addEventListener("mouseenter", () => pick(true));
  item.addEventListener("mouseleave", () => pick(false));
}
