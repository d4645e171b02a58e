// What `useChat` does, without a browser: sends a conversation with the SDK's own transport and reads the stream with
// its own parser. In: a JSON object {api, key, messages, body}. Out: {chunks, message}.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { argv, stdout } from "node:process";

const require = createRequire(pathToFileURL(`${argv[2]}/`));
const { DefaultChatTransport, readUIMessageStream } = await import(pathToFileURL(require.resolve("ai")).href);
const { api, key, messages, body } = JSON.parse(argv[3]);

const transport = new DefaultChatTransport({ api, headers: { Authorization: `Bearer ${key}` } });
const stream = await transport.sendMessages({ chatId: "c1", messages, trigger: "submit-message", body });
const [counted, read] = stream.tee();
const chunks = [];
const counting = (async () => {
  for await (const chunk of counted) chunks.push(chunk.type);
})();
let message;
for await (const grown of readUIMessageStream({ stream: read, terminateOnError: true })) message = grown;
await counting;
stdout.write(JSON.stringify({ chunks, message }));
