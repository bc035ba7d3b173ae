// graphile-worker with its local queue and batched completion: 24 at once, 500 at hand.
import { createInterface } from "node:readline";
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import pg from "pg";

const url = process.argv[2];
const logger = new Logger(() => () => {});
const now = () => Number(process.hrtime.bigint()) / 1e9;
const pool = new pg.Pool({ connectionString: url, max: 20 });
let utils = null;
const open = async () => (utils ??= await makeWorkerUtils({ pgPool: pool, logger }));

const rate = async (count, work) => {
  const began = now();
  await work();
  return count / (now() - began);
};
const bulk = (task) => async ({ count }) => {
  await open();
  return rate(count, async () => {
    for (let at = 0; at < count; at += 10000) {
      const size = Math.min(10000, count - at);
      await utils.addJobs(Array.from({ length: size }, (_, n) => ({ identifier: task, payload: { n: at + n } })));
    }
  });
};
const acts = {
  prepare: async () => void (await (await open()).migrate()),
  submit_one: async ({ count }) => {
    await open();
    return rate(count, async () => {
      for (let n = 0; n < count; n++) await utils.addJob("one", { n });
    });
  },
  submit_bulk: bulk("bulk"),
  fill: bulk("parcel"),
  drain: async ({ count }) => {
    let done = 0, ended = 0, idle;
    const over = new Promise((resolve) => (idle = resolve));
    const began = now();
    const left = async () => {
      const found = await pool.query("select 1 from graphile_worker.jobs where task_identifier = 'parcel' limit 1");
      if (found.rowCount) setTimeout(left, 50);
      else idle();
    };
    const runner = await run({
      pgPool: pool, logger, noHandleSignals: true,
      taskList: { parcel: async () => { done++; ended = now(); } },
      preset: { worker: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    });
    setTimeout(left, 50);
    await over;
    await runner.stop();
    return { began, ended, count: done };
  },
  wake: async ({ count }) => {
    await open();
    let heard;
    const runner = await run({
      pgPool: pool, logger, noHandleSignals: true, taskList: { wake: async () => heard(now()) },
      preset: { worker: { concurrentJobs: 10 } },
    });
    const took = [];
    for (let n = -5; n < count; n++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const began = new Promise((resolve) => (heard = resolve));
      const asked = now();
      await utils.addJob("wake", { n });
      const at = await began;
      if (n >= 0) took.push((at - asked) * 1000);
    }
    await runner.stop();
    return took;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  process.stdout.write(JSON.stringify((await acts[asked.act](asked)) ?? null) + "\n");
}
process.exit(0);
