// The page at /docs: shows /openapi.json, and sends requests that the reader writes.
// Everything is made of elements and text nodes: nothing of the document is parsed as HTML.

const MOST_SHOWN = 200_000; // characters of an answer
const state = { key: "", document: null };

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

// Descriptions have `code` between backticks, and no other markup.
function prose(text) {
  const parts = (text || "").split("`");
  return parts.map((part, place) => (place % 2 ? make("code", {}, part) : part));
}

// A <details> whose inside is made when it is opened for the first time.
function folded(summary, inside, attributes = {}) {
  const box = make("div", { class: "inside" });
  const made = make("details", attributes, make("summary", {}, ...summary), box);
  made.addEventListener("toggle", () => {
    if (made.open && !box.hasChildNodes()) box.append(...[inside()].flat());
  });
  return made;
}

// Schemas ---------------------------------------------------------------------------------------

const nameOf = (ref) => ref.split("/").pop();
const resolve = (part) =>
  part && part.$ref
    ? part.$ref.slice(2).split("/").reduce((found, name) => found[name], state.document)
    : part;

function bounds(schema) {
  const words = [];
  const number = (value) => (Math.abs(value) > 1e30 ? null : String(value));
  const range = (low, high, openLow, openHigh, unit) => {
    if (low == null && high == null) return;
    const from = low == null ? "" : `${openLow ? "above" : "at least"} ${low}`;
    const to = high == null ? "" : `${openHigh ? "below" : "at most"} ${high}`;
    words.push([from, to].filter(Boolean).join(" and ") + unit);
  };
  const low = schema.exclusiveMinimum ?? schema.minimum;
  const high = schema.exclusiveMaximum ?? schema.maximum;
  range(
    low == null ? null : number(low),
    high == null ? null : number(high),
    schema.exclusiveMinimum != null,
    schema.exclusiveMaximum != null,
    "",
  );
  range(schema.minLength, schema.maxLength, false, false, " characters");
  range(schema.minItems, schema.maxItems, false, false, " items");
  if (schema.pattern) words.push(`pattern ${schema.pattern}`);
  if (schema.format || schema.contentEncoding) words.push(schema.format || schema.contentEncoding);
  if (schema.not) words.push(`not ${JSON.stringify(schema.not.const ?? schema.not.enum ?? schema.not)}`);
  if (schema.default !== undefined) words.push(`default ${JSON.stringify(schema.default)}`);
  return words.join(", ");
}

// One line about the values of a schema.
function typeOf(schema) {
  if (!schema || !Object.keys(schema).length) return "any value";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  const kinds = [schema.type || "any value"].flat();
  const shown = kinds.map((kind) =>
    kind === "array" && schema.items ? `array of ${typeOf(schema.items)}` : kind,
  );
  const limits = bounds(schema);
  return shown.join(" or ") + (limits ? ` (${limits})` : "");
}

// Schemas inside of a schema that have members or a name of their own.
function inner(schema) {
  if (!schema) return [];
  if (schema.$ref) return [schema];
  const forms = (schema.anyOf || []).flatMap(inner);
  const items = schema.items ? inner(schema.items) : [];
  const values =
    typeof schema.additionalProperties === "object" ? inner(schema.additionalProperties) : [];
  const data = schema.contentSchema ? inner(schema.contentSchema) : [];
  return [...(schema.properties ? [schema] : []), ...forms, ...items, ...values, ...data];
}

function members(schema) {
  const required = new Set(schema.required || []);
  const list = make("dl", { class: "members" });
  for (const [name, member] of Object.entries(schema.properties || {})) {
    list.append(
      make(
        "dt",
        {},
        make("span", { class: "name" }, name),
        " ",
        make("span", { class: "type" }, typeOf(member)),
        required.has(name) ? make("span", { class: "required" }, " required") : null,
      ),
      make(
        "dd",
        {},
        member.description ? make("p", {}, prose(member.description)) : null,
        ...inner(member).map(shown),
      ),
    );
  }
  return list;
}

// A schema in full: its text and members, or its line.
function described(schema) {
  const parts = [];
  if (schema.description) parts.push(make("p", {}, prose(schema.description)));
  if (schema.properties) parts.push(members(schema));
  else {
    parts.push(make("p", { class: "type" }, typeOf(schema)));
    parts.push(...inner(schema).map(shown));
  }
  return parts;
}

function shown(schema) {
  if (!schema.$ref) return members(schema);
  return folded([make("span", { class: "name" }, nameOf(schema.$ref))], () =>
    described(resolve(schema)),
  );
}

// Operations ------------------------------------------------------------------------------------

// The same operation below /v3 and /v1 is shown once, with both paths.
function operationsByTag() {
  const tags = new Map();
  for (const [path, methods] of Object.entries(state.document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = (operation.tags || ["Other"])[0];
      if (!tags.has(tag)) tags.set(tag, new Map());
      const key = `${method} ${operation.summary}`;
      const same = tags.get(tag).get(key);
      if (same) same.paths.push(path);
      else tags.get(tag).set(key, { method, operation, paths: [path] });
    }
  }
  return tags;
}

function operationView({ method, operation, paths }) {
  const summary = [
    make("span", { class: `method ${method}` }, method),
    " ",
    make("span", { class: "path" }, paths.join("  ")),
    " ",
    make("span", { class: "about" }, operation.summary),
  ];
  const made = folded(summary, () => operationInside(method, operation, paths), {
    id: operation.operationId,
  });
  const body = Object.values(operation.requestBody?.content || {}).map((each) => each.schema);
  const words = [method, ...paths, operation.summary, operation.description, memberNames(body)];
  made.dataset.words = words.join(" ").toLowerCase();
  return made;
}

function memberNames(schemas) {
  const names = schemas.map((schema) => Object.keys(resolve(schema)?.properties || {}));
  return names.flat().join(" ");
}

function operationInside(method, operation, paths) {
  const parameters = (operation.parameters || []).map(resolve);
  const parts = [];
  if (operation.description) parts.push(make("p", {}, prose(operation.description)));
  if (parameters.length) {
    parts.push(make("h3", {}, "Parameters"));
    const list = make("dl", { class: "members" });
    for (const each of parameters) {
      list.append(
        make(
          "dt",
          {},
          make("span", { class: "name" }, each.name),
          " ",
          make("span", { class: "type" }, `${each.in}, ${typeOf(each.schema)}`),
          each.required ? make("span", { class: "required" }, " required") : null,
        ),
        make("dd", {}, make("p", {}, prose(each.description))),
      );
    }
    parts.push(list);
  }
  for (const [media, { schema }] of Object.entries(operation.requestBody?.content || {})) {
    parts.push(make("h3", {}, "Body ", make("span", { class: "type" }, media)), schemaView(schema));
  }
  parts.push(make("h3", {}, "Answers"), answers(operation));
  parts.push(trial(method, operation, paths, parameters));
  return parts;
}

function schemaView(schema) {
  return schema.$ref ? shown(schema) : make("div", {}, described(schema));
}

function answers(operation) {
  const box = make("div", {});
  for (const [status, part] of Object.entries(operation.responses)) {
    const answer = resolve(part);
    const content = Object.entries(answer.content || {});
    box.append(
      folded(
        [make("span", { class: "name" }, status), " ", ...prose(answer.description)],
        () =>
          content.length
            ? content.flatMap(([media, { schema }]) => [
                make("p", { class: "type" }, media),
                schemaView(schema),
              ])
            : [make("p", { class: "quiet" }, "No body.")],
      ),
    );
  }
  return box;
}

// Trying a request ------------------------------------------------------------------------------

function field(label, control) {
  return make("p", { class: "field" }, make("label", { for: control.id }, label), control);
}

function trial(method, operation, paths, parameters) {
  const id = operation.operationId;
  const path = make(
    "select",
    { id: `${id}-at` },
    paths.map((each) => make("option", { value: each }, each)),
  );
  const inputs = parameters.map((each) => {
    const input = make("input", {
      id: `${id}-${each.name}`,
      required: each.required,
      autocomplete: "off",
      spellcheck: "false",
    });
    return { ...each, input };
  });
  const json = operation.requestBody?.content?.["application/json"];
  const examples = Object.values(json?.examples || {});
  const body = json && make("textarea", { id: `${id}-body`, spellcheck: "false" });
  if (body && examples.length) body.value = JSON.stringify(examples[0].value, null, 2);
  const choice =
    examples.length > 1 &&
    make(
      "select",
      {
        id: `${id}-example`,
        onchange: () => {
          body.value = JSON.stringify(examples[choice.selectedIndex].value, null, 2);
        },
      },
      examples.map((each) => make("option", {}, each.summary)),
    );
  const send = make("button", {}, "Send");
  const stop = make("button", { type: "button", disabled: true }, "Stop");
  const status = make("p", { role: "status" });
  const command = make("pre", { "aria-label": "The same with curl", hidden: true });
  const answer = make("pre", { "aria-label": "Answer", tabindex: "0", hidden: true });
  const form = make(
    "form",
    {},
    make("h3", {}, "Try it"),
    paths.length > 1 ? field("Path", path) : null,
    inputs.map((each) => field(`${each.name} (${each.in})`, each.input)),
    choice ? field("Example", choice) : null,
    body ? field("Body", body) : null,
    make("p", { class: "field" }, send, " ", stop),
    status,
    command,
    answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const request = requestOf(method, path.value, inputs, body);
    command.textContent = asCurl(request);
    command.hidden = false;
    const control = new AbortController();
    stop.disabled = false;
    send.disabled = true;
    stop.onclick = () => control.abort();
    await sendTo(request, control.signal, status, answer);
    stop.disabled = true;
    send.disabled = false;
  });
  return form;
}

function requestOf(method, path, inputs, body) {
  const headers = {};
  for (const { name, input, ...each } of inputs) {
    if (each.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (input.value) headers[name] = input.value;
  }
  const text = body ? body.value.trim() : "";
  if (text) headers["Content-Type"] = "application/json";
  return { method: method.toUpperCase(), path, headers, body: text || undefined };
}

function asCurl({ method, path, headers, body }) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const words = ["curl", quote(location.origin + path)];
  if (method !== "GET" && !(method === "POST" && body)) words.push("-X", method);
  for (const [name, value] of Object.entries(headers)) words.push("-H", quote(`${name}: ${value}`));
  if (state.key) words.push("-H", '"Authorization: Bearer $API_KEY"');
  if (body) words.push("-d", quote(body));
  return words.join(" ");
}

function fetched(path, options = {}) {
  const headers = { ...options.headers };
  if (state.key) headers.Authorization = `Bearer ${state.key}`;
  return fetch(path, { ...options, headers, credentials: "omit", cache: "no-cache" });
}

async function sendTo({ method, path, headers, body }, signal, status, answer) {
  const begin = performance.now();
  const seconds = () => `${((performance.now() - begin) / 1000).toFixed(2)} s`;
  answer.textContent = "";
  answer.hidden = false;
  status.classList.remove("failed");
  status.textContent = "Sent; waiting for the answer.";
  try {
    const response = await fetched(path, { method, headers, body, signal });
    const warning = response.headers.get("Warning");
    const line = `${response.status} ${response.statusText}${warning ? `; ${warning}` : ""}`;
    status.classList.toggle("failed", !response.ok);
    status.textContent = `${line}; reading the answer.`;
    const text = await read(response, answer);
    answer.textContent = shortened(pretty(text, response.headers.get("Content-Type") || ""));
    status.textContent = `${line}, ${seconds()}`;
  } catch (error) {
    status.classList.add("failed");
    status.textContent =
      error.name === "AbortError" ? `Stopped after ${seconds()}.` : `No answer: ${error.message}`;
  }
}

// Returns the whole body; shows events while they arrive.
async function read(response, answer) {
  let text = "";
  if (!response.body) return text;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    answer.textContent = shortened(text);
    answer.scrollTop = answer.scrollHeight;
  }
}

const shortened = (text) =>
  text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n... ${text.length} characters` : text;

function pretty(text, kind) {
  if (!kind.startsWith("application/json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The page --------------------------------------------------------------------------------------

function filter() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const section of byId("operations").children) {
    let found = 0;
    for (const each of section.querySelectorAll(":scope > details")) {
      each.hidden = !words.every((word) => each.dataset.words.includes(word));
      found += each.hidden ? 0 : 1;
    }
    section.hidden = !found;
    count += found;
  }
  byId("found").textContent = words.length ? `${count} found` : "";
}

function render() {
  const { info, components } = state.document;
  byId("version").textContent = info.version;
  byId("about").replaceChildren(...prose(info.description));
  const main = byId("operations");
  main.replaceChildren();
  for (const [tag, operations] of operationsByTag()) {
    const views = [...operations.values()].map(operationView);
    main.append(make("section", {}, make("h2", {}, tag), views));
  }
  main.setAttribute("aria-busy", "false");
  byId("schema-list").replaceChildren(
    ...Object.keys(components.schemas).map((name) =>
      shown({ $ref: `#/components/schemas/${name}` }),
    ),
  );
  byId("schemas").hidden = false;
  filter();
  const wanted = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (wanted instanceof HTMLDetailsElement) {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

async function load() {
  const problem = byId("problem");
  problem.hidden = true;
  byId("access-note").textContent = "";
  try {
    const response = await fetched("/openapi.json");
    if (response.status === 401) {
      const note = state.key ? "This key is not valid." : "This server needs a key.";
      byId("access-note").textContent = note;
      byId("key").focus();
      return;
    }
    if (!response.ok) throw new Error(`/openapi.json: ${response.status} ${response.statusText}`);
    state.document = await response.json();
    if (state.key) byId("access-note").textContent = "The key is used, and forgotten with the page.";
    render();
  } catch (error) {
    problem.textContent = `The document cannot be shown: ${error.message}`;
    problem.hidden = false;
  }
}

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = byId("key").value.trim();
  load();
});
byId("search").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", filter);
load();
