// bus/http/page/completion.js: one answer of the model, as it streams in.
import { open, refusal, unreachable } from "./api.js";
import { read_events } from "./sse.js";

// Gives {text} for each piece, and at its end {finish, usage, measured}. Throws what api.js does; AbortError when `signal` has stopped it.
export async function* complete(request, signal) {
  const body = { ...request, stream: true, stream_options: { include_usage: true } };
  const response = await open("POST", "/v1/chat/completions", body, signal);
  let finish = null, usage = null, measured = null;
  for await (const { data } of read_events(response)) {
    if (data === "[DONE]") {
      yield { finish, usage, measured };
      return;
    }
    const said = JSON.parse(data);
    if (said.error) throw new refusal(response.status, said.error.code, said.error.message);
    if (said.usage) usage = said.usage;
    const choice = said.choices?.[0];
    if (choice?.finish_reason) finish = choice.finish_reason;
    if (choice?.ebb) measured = choice.ebb;
    if (choice?.delta?.content) yield { text: choice.delta.content };
  }
  throw new unreachable(); // a stream that is whole ends with [DONE]
}
