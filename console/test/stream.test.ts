import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Event } from '../src/api/types';
import { FLUSH_MS, PROOF_MS, Stream, type Connection, type Source } from '../src/store/stream';

/** A small control plane: it can go away, come back, and start its numbers over. */
class Plane {
  up = true;
  plane = 'first';
  opened: number[] = [];
  heard: Record<string, (event: { data?: string }) => void> = {};

  open(after: number): Source {
    this.opened.push(after);
    return { addEventListener: (type, heard) => (this.heard[type] = heard), close: () => undefined };
  }
  async version() {
    if (!this.up) throw new Error('refused');
    return { version: '0.1.0', api: 'v1', plane: this.plane, started_at: 0 };
  }
  beginning = async () => 7;
  say(...seqs: number[]): void {
    for (const seq of seqs) {
      this.heard['job']!({ data: JSON.stringify({ type: 'job', seq, at: 0, job: 'a', state: 'running' }) });
    }
  }
  async accept(): Promise<void> {
    await vi.advanceTimersByTimeAsync(0);
    this.heard['open']!({});
  }
}

let plane: Plane;
let told: number[][];
let states: Connection[];
let returned: number;
let resets: number;
let stream: Stream;

beforeEach(() => {
  vi.useFakeTimers();
  plane = new Plane();
  [told, states, returned, resets] = [[], [], 0, 0];
  stream = new Stream(plane, {
    connection: (now) => states.push(now),
    events: (batch: Event[]) => told.push(batch.map((event) => event.seq)),
    version: () => undefined,
    returned: () => (returned += 1),
    reset: () => (resets += 1),
  });
});
afterEach(() => vi.useRealTimers());

test('a burst is handed on at once, not one by one', async () => {
  stream.connect();
  await plane.accept();
  expect(plane.opened).toEqual([7]);
  plane.say(...Array.from({ length: 1000 }, (_, index) => index + 8));
  expect(told).toEqual([]);
  vi.advanceTimersByTime(FLUSH_MS);
  expect(told).toHaveLength(1);
  expect(told[0]).toHaveLength(1000);
});

test('coming back it asks for the last event again and goes on after it', async () => {
  stream.connect();
  await plane.accept();
  plane.say(8, 9);
  plane.up = false;
  plane.heard['error']!({});
  expect(told).toEqual([[8, 9]]);
  expect(states.at(-1)).toBe('away');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(plane.opened).toHaveLength(1);

  plane.up = true;
  await vi.advanceTimersByTimeAsync(3000);
  await plane.accept();
  expect(plane.opened).toEqual([7, 8]);
  expect(states.at(-1)).toBe('live');
  expect(returned).toBe(1);
  plane.say(9, 10);
  await vi.advanceTimersByTimeAsync(PROOF_MS);
  expect(told).toEqual([[8, 9], [10]]);
  expect(resets).toBe(0);
});

test('numbers that begin lower void what was known', async () => {
  stream.connect();
  await plane.accept();
  plane.say(500);
  plane.heard['error']!({});
  await vi.advanceTimersByTimeAsync(3000);
  await plane.accept();
  // Nothing comes: the control plane has no event 500.
  await vi.advanceTimersByTimeAsync(PROOF_MS);
  await plane.accept();
  expect(resets).toBe(1);
  expect(plane.opened).toEqual([7, 499, 7]);
  plane.say(8);
  vi.advanceTimersByTime(FLUSH_MS);
  expect(told.at(-1)).toEqual([8]);
});

test('another control plane at the same address voids it too', async () => {
  stream.connect();
  await plane.accept();
  plane.say(8);
  plane.plane = 'second';
  plane.heard['error']!({});
  await vi.advanceTimersByTimeAsync(3000);
  await plane.accept();
  expect(resets).toBe(1);
  expect(plane.opened).toEqual([7, 7]);
});

test('a hidden page leaves its connection to others', async () => {
  stream.connect();
  await plane.accept();
  stream.rest();
  expect(states.at(-1)).toBe('resting');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(plane.opened).toHaveLength(1);
});
