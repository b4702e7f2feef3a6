// bus/http/page/dom.js: makes elements. Names and answers come from strangers: they become text, never markup.

export const by_id = (id) => document.getElementById(id);

// make("p", {class: "error", "aria-label": "..."}, "text", child): attributes as in HTML; true is an empty one, false and null none.
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function make_svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Only when it differs, so that a screen reader or a selection is left in peace.
export function set_text(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function set_attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// An error at the place where it arose; "" when it is over.
export function show_error(element, text) {
  element.hidden = text === "";
  set_text(element, text);
}

// The children of `parent`, one for each item, kept by key from one call to the next: focus and transitions live on.
export function keep_children(parent, items, key_of, make_child, update_child) {
  const keys = new Set(items.map((item) => String(key_of(item))));
  const known = new Map();
  for (const child of [...parent.children]) {
    if (child.dataset.key === undefined) continue;
    if (keys.has(child.dataset.key)) known.set(child.dataset.key, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(key_of(item));
    let child = known.get(key);
    if (!child) {
      child = make_child(item);
      child.dataset.key = key;
    }
    update_child(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
}

// Does `action` when the button is pressed, once at a time. The button stays enabled meanwhile, since a disabled one loses the focus.
export function on_press(button, action) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    try {
      await action();
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}

let announced = 0;

// Said by a screen reader when it has time, and seen by nobody.
export function announce(text) {
  const announcer = by_id("announcer");
  announcer.textContent = text;
  const mine = ++announced;
  setTimeout(() => mine === announced && (announcer.textContent = ""), 10_000);
}
