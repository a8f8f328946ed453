import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { COME_BACK_MS, find, follow, parts } from '../src/store/log';
import { REST_AFTER_MS } from '../src/store/unseen';

/** The stream of the log, and those that were opened before. */
class Source extends EventTarget {
  static all: Source[] = [];
  closed = false;
  constructor(readonly url: string) {
    super();
    Source.all.push(this);
  }
  close(): void {
    this.closed = true;
  }
  say(type: string, data?: unknown): void {
    this.dispatchEvent(Object.assign(new Event(type), { data: JSON.stringify(data) }));
  }
}
const latest = (): Source => Source.all.at(-1)!;
const piece = (text: string) => ({ attempt: 1, cluster: 'mac', from: 0, text });

let told: string[];
let page: EventTarget & { hidden: boolean };
let job: Response;
let stop: () => void;

beforeEach(() => {
  vi.useFakeTimers();
  Source.all = [];
  told = [];
  page = Object.assign(new EventTarget(), { hidden: false });
  job = new Response('{}');
  vi.stubGlobal('EventSource', Source);
  vi.stubGlobal('document', page);
  vi.stubGlobal('fetch', async () => job.clone());
  stop = follow('a', {
    text: (text) => told.push(text),
    note: (text) => told.push(`(${text})`),
    ended: () => told.push('ended'),
    broken: () => told.push('broken'),
  });
});
afterEach(() => {
  stop();
  vi.useRealTimers();
});

async function look(hidden: boolean, ms: number): Promise<void> {
  page.hidden = hidden;
  page.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(ms);
}

test('a hidden page gives its connection back, and goes on where it was', async () => {
  latest().say('log', piece('one\n'));
  await look(true, REST_AFTER_MS - 1);
  await look(false, REST_AFTER_MS);
  expect(latest().closed).toBe(false);
  await look(true, REST_AFTER_MS);
  expect(latest().closed).toBe(true);
  await look(false, 0);
  expect(Source.all).toHaveLength(2);
  latest().say('log', piece('one\ntwo\n'));
  expect(told).toEqual(['one\n', 'two\n']);
});

test('a stream that broke stays closed while the page is hidden', async () => {
  await look(true, REST_AFTER_MS - 1);
  latest().say('error');
  await vi.advanceTimersByTimeAsync(10 * COME_BACK_MS);
  expect(Source.all).toHaveLength(1);
  await look(false, 0);
  expect(Source.all).toHaveLength(2);
});

test('a complete log is not asked for again', async () => {
  latest().say('end');
  await look(true, REST_AFTER_MS);
  await look(false, COME_BACK_MS);
  expect(Source.all).toHaveLength(1);
  expect(told).toEqual(['ended']);
});

test('a stream that breaks off comes back when the job is there', async () => {
  job = new Response('', { status: 503 });
  latest().say('error');
  await vi.advanceTimersByTimeAsync(2 * COME_BACK_MS);
  expect(Source.all).toHaveLength(1);
  job = new Response('{}');
  await vi.advanceTimersByTimeAsync(COME_BACK_MS);
  expect(Source.all).toHaveLength(2);
  expect(latest().url).toBe('/v1/jobs/a/logs/follow');
});

test('the log of a forgotten job has ended', async () => {
  job = new Response('{"code": "unknown_job", "message": "there is no job a"}', { status: 404 });
  latest().say('error');
  await vi.advanceTimersByTimeAsync(10 * COME_BACK_MS);
  expect(Source.all).toHaveLength(1);
  expect(told).toEqual(['broken', '(there is no job a)', 'ended']);
});

test('a search counts all lines and returns the first, with where they begin', () => {
  const text = 'epoch 1\nLoss is NaN\n\nloss 2\nend';
  expect(find(text, 'LOSS', 1)).toEqual({ total: 2, lines: [{ number: 2, start: 8, text: 'Loss is NaN' }] });
  expect(find(text, 'end', 9).lines).toEqual([{ number: 5, start: 28, text: 'end' }]);
  expect(find('', 'x', 9)).toEqual({ total: 0, lines: [] });
});

test('the words in a line are at the odd places', () => {
  expect(parts('a LOSS of loss', 'loss')).toEqual(['a ', 'LOSS', ' of ', 'loss', '']);
  expect(parts('none', 'loss')).toEqual(['none']);
  // Lower case of this letter is two characters long.
  expect(parts('İ loss', 'loss')).toEqual(['İ loss']);
});
