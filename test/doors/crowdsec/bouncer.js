// A Node.js application with CrowdSec's bouncer. It prints what becomes of the
// addresses of each line of its input: in stream mode it fetches the changes first.
import { createInterface } from 'node:readline';
import { CrowdSecBouncer } from '@crowdsec/nodejs-bouncer';

const [url, bouncerApiToken, mode] = process.argv.slice(2);
const bouncer = new CrowdSecBouncer({ url, bouncerApiToken, streamMode: mode === 'stream', cleanIpCacheDuration: 1, badIpCacheDuration: 1 });

for await (const line of createInterface({ input: process.stdin })) {
  if (mode === 'stream') await bouncer.refreshDecisions();
  const found = [];
  for (const ip of line.split(' ')) found.push((await bouncer.getIpRemediation(ip)).remediation);
  console.log(found.join(' '));
}
await bouncer.pushUsageMetrics('test', 'v1');
console.log('metrics');
