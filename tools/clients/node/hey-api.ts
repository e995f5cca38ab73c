// The script of calls by the client that @hey-api/openapi-ts generates.
import { expect, headers, STINT_ADMIN_URL, STINT_CHECK_URL } from "./expect.js";
import { createClient } from "./generated/hey-api/client/index.js";
import { addBlock, check, listBlocks, putPolicy, reportOutcome } from "./generated/hey-api/sdk.gen.js";

const checks = createClient({ baseUrl: STINT_CHECK_URL });
const admin = createClient({ baseUrl: STINT_ADMIN_URL, headers });

const path = { name: "hey" };
const created = await putPolicy({ client: admin, path, body: { match: ["hey:*"], rules: ["2/1h"] } });
expect("create a policy", created.response, 201);
const current = { "If-Match": `"${created.data!.etag}"` };
const wanted = { match: ["hey:*"], rules: ["1/1h"] };
expect("replace the policy", (await putPolicy({ client: admin, path, headers: current, body: wanted })).response, 200);
const outdated = await putPolicy({ client: admin, path, headers: current, body: wanted });
expect("replace a version that was replaced", outdated.response, 412);

expect("check 1", (await check({ client: checks, body: { key: "hey:alice" } })).response, 200);
expect("check 2", (await check({ client: checks, body: { key: "hey:alice" } })).response, 429);
expect("report an outcome", (await reportOutcome({ client: checks, body: { key: "hey:alice", outcome: "login_failed" } })).response, 200);

for (const n of [0, 1, 2]) {
  expect("block a key", (await addBlock({ client: admin, body: { pattern: `hey:block-${n}`, reason: "a test" } })).response, 201);
}
let seen = 0;
let pages = 0;
for (let cursor: string | null | undefined; cursor !== null; pages++) {
  const page = await listBlocks({ client: admin, query: { limit: 2, within: "hey:*", cursor: cursor ?? undefined } });
  expect("list the blocks", page.response, 200);
  seen += page.data!.items.length;
  cursor = page.data!.next_cursor ?? null;
}
if (seen !== 3 || pages !== 2) throw new Error(`${seen} blocks on ${pages} pages, want 3 on 2`);
console.log("hey-api: all calls were answered as described");
