// pg-boss: fetch and complete in batches of a thousand, two loops side by side.
import { createInterface } from "node:readline";
import PgBoss from "pg-boss";

const now = () => Number(process.hrtime.bigint()) / 1e9;
const boss = new PgBoss({ connectionString: process.argv[2], max: 4, supervise: false, schedule: false });
boss.on("error", (error) => process.stderr.write(`${error}\n`));
let started = null;
const open = () => (started ??= boss.start());

const rate = async (count, work) => {
  const began = now();
  await work();
  return count / (now() - began);
};
const bulk = (name) => async ({ count }) => {
  await open();
  return rate(count, async () => {
    for (let at = 0; at < count; at += 1000) {
      const size = Math.min(1000, count - at);
      await boss.insert(Array.from({ length: size }, (_, n) => ({ name, data: { n: at + n } })));
    }
  });
};
const acts = {
  prepare: async () => {
    await open();
    for (const name of ["one", "bulk", "parcel"]) await boss.createQueue(name);
  },
  submit_one: async ({ count }) => {
    await open();
    return rate(count, async () => {
      for (let n = 0; n < count; n++) await boss.send("one", { n });
    });
  },
  submit_bulk: bulk("bulk"),
  fill: bulk("parcel"),
  drain: async () => {
    await open();
    let done = 0, ended = 0;
    const began = now();
    const loop = async () => {
      for (;;) {
        const jobs = await boss.fetch("parcel", { batchSize: 1000 });
        if (!jobs.length) return;
        await boss.complete("parcel", jobs.map((job) => job.id));
        done += jobs.length;
        ended = now();
      }
    };
    await Promise.all([loop(), loop()]);
    return { began, ended, count: done };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  process.stdout.write(JSON.stringify((await acts[asked.act](asked)) ?? null) + "\n");
}
process.exit(0);
