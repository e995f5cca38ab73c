// The script of calls by openapi-fetch with the types that openapi-typescript generates.
import createClient from "openapi-fetch";
import { expect, headers, STINT_ADMIN_URL, STINT_CHECK_URL } from "./expect.js";
import type { paths } from "./generated/schema.js";

const checks = createClient<paths>({ baseUrl: STINT_CHECK_URL });
const admin = createClient<paths>({ baseUrl: STINT_ADMIN_URL, headers });

const path = { name: "fetch" };
const created = await admin.PUT("/v1/policies/{name}", { params: { path }, body: { match: ["fetch:*"], rules: ["2/1h"] } });
expect("create a policy", created.response, 201);
const header = { "If-Match": `"${created.data!.etag}"` };
const wanted = { match: ["fetch:*"], rules: ["1/1h"] };
expect("replace the policy", (await admin.PUT("/v1/policies/{name}", { params: { path, header }, body: wanted })).response, 200);
const outdated = await admin.PUT("/v1/policies/{name}", { params: { path, header }, body: wanted });
expect("replace a version that was replaced", outdated.response, 412);
if (outdated.error?.code !== "precondition_failed") throw new Error(`the problem's code is ${outdated.error?.code}`);

expect("check 1", (await checks.POST("/v1/check", { body: { key: "fetch:alice" } })).response, 200);
expect("check 2", (await checks.POST("/v1/check", { body: { key: "fetch:alice" } })).response, 429);
expect("report an outcome", (await checks.POST("/v1/report", { body: { key: "fetch:alice", outcome: "login_failed" } })).response, 200);

for (const n of [0, 1, 2]) {
  expect("block a key", (await admin.POST("/v1/blocks", { body: { pattern: `fetch:block-${n}`, reason: "a test" } })).response, 201);
}
let seen = 0;
let pages = 0;
for (let cursor: string | null | undefined; cursor !== null; pages++) {
  const page = await admin.GET("/v1/blocks", { params: { query: { limit: 2, within: "fetch:*", cursor: cursor ?? undefined } } });
  expect("list the blocks", page.response, 200);
  seen += page.data!.items.length;
  cursor = page.data!.next_cursor ?? null;
}
if (seen !== 3 || pages !== 2) throw new Error(`${seen} blocks on ${pages} pages, want 3 on 2`);
console.log("openapi-typescript: all calls were answered as described");
