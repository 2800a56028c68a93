"use strict";
// Keeps the page up to date: each message of the stream is the new content of main. It is
// merged into the old one node by node, so that the focus, what was typed and where was
// scrolled to stay.

function merge(old, fresh) {
  const from = [...fresh.childNodes];
  const to = [...old.childNodes];
  from.forEach((node, i) => {
    const had = to[i];
    if (!had) {
      old.appendChild(node);
    } else if (had.nodeType !== node.nodeType || had.nodeName !== node.nodeName || (had.id || "") !== (node.id || "")) {
      old.replaceChild(node, had);
    } else if (node.nodeType === Node.ELEMENT_NODE) {
      for (const a of [...had.attributes]) if (!node.hasAttribute(a.name)) had.removeAttribute(a.name);
      for (const a of node.attributes) if (had.getAttribute(a.name) !== a.value) had.setAttribute(a.name, a.value);
      merge(had, node);
    } else if (had.nodeValue !== node.nodeValue) {
      had.nodeValue = node.nodeValue;
    }
  });
  for (const rest of to.slice(from.length)) rest.remove();
}

const live = document.getElementById("live");
const link = document.getElementById("link");

function say(text) {
  if (link.textContent !== text) link.textContent = text;
}

const stream = new EventSource("stream" + location.search);
stream.onopen = () => say("Updated as things happen.");
stream.onerror = () => say(stream.readyState === EventSource.CLOSED
  ? "Not updated any more: reload the page." : "The connection is lost: what you see is old.");
stream.onmessage = (event) => {
  const fresh = document.createElement("template");
  fresh.innerHTML = JSON.parse(event.data);
  merge(live, fresh.content);
};
