// bus/http/page/api.js: asks the daemon over HTTP, with the key if there is one. What it refuses is thrown in its own words.

const key_name = "ebb.key";

// The daemon said no.
export class refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// It said nothing.
export class unreachable extends Error {
  constructor() {
    super("the daemon does not answer");
  }
}

// Of this tab alone: never in an address, a cookie, or what outlives the tab.
export const key = {
  get: () => sessionStorage.getItem(key_name),
  set: (text) => sessionStorage.setItem(key_name, text),
  forget: () => sessionStorage.removeItem(key_name),
};

async function refusal_of(response) {
  const said = await response.json().catch(() => null);
  const error = said?.error ?? {};
  return new refusal(response.status, error.code ?? "", error.message ?? `the daemon answered ${response.status} ${response.statusText}`);
}

// The response, whose body the caller reads. Throws refusal, unreachable, or AbortError when `signal` has ended it.
export async function open(method, path, body, signal) {
  const headers = {};
  if (key.get()) headers["Authorization"] = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (why) {
    if (signal?.aborted && signal.reason?.name === "AbortError") throw signal.reason;
    throw why.name === "AbortError" ? why : new unreachable();
  }
  if (!response.ok) throw await refusal_of(response);
  return response;
}

export async function ask(method, path, body, signal) {
  const response = await open(method, path, body, signal);
  try {
    return await response.json();
  } catch (why) {
    throw why.name === "AbortError" ? why : new unreachable();
  }
}
