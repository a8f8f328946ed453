// The one connection over which the control plane reports events.
//
// It reconnects automatically, and then requests the last event it had *again*. If that event
// arrives, none was missed. If it does not, the numbers started over (another state directory, a
// restored backup), and everything known is void.

import type { Event, Version } from '../api/types';

export type Connection = 'connecting' | 'live' | 'away' | 'resting';

/** The used part of an EventSource. */
export interface Source {
  addEventListener(type: string, heard: (event: { data?: string }) => void): void;
  close(): void;
}

export interface World {
  open(after: number): Source;
  version(): Promise<Version>;
  /** Where to begin at first: a little before now, so that there is something to show. */
  beginning(): Promise<number>;
}

export interface Listener {
  connection(now: Connection): void;
  events(batch: Event[]): void;
  version(version: Version): void;
  /** Connected again: fetch everything that is on the screen. */
  returned(): void;
  /** Another control plane: forget everything. */
  reset(): void;
}

/** Events are passed on this often, however many there are. */
export const FLUSH_MS = 250;
/** A control plane that has the last event sends it well within this. */
export const PROOF_MS = 3000;
const LONGEST_PAUSE_MS = 3000;

export class Stream {
  private source: Source | undefined;
  private plane: Version | undefined;
  private last: number | undefined;
  /** The event that must come first after a reconnect. */
  private proof: ReturnType<typeof setTimeout> | undefined;
  private buffer: Event[] = [];
  private flushing: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private connects = 0;

  constructor(
    private readonly world: World,
    private readonly listener: Listener,
  ) {}

  connect(): void {
    this.close();
    const turn = ++this.connects;
    if (this.failures === 0) this.listener.connection('connecting');
    this.open(turn).catch(() => turn === this.connects && this.lost());
  }

  /** The page is hidden: leave the connection to other pages of this browser. */
  rest(): void {
    this.connects += 1;
    this.close();
    this.failures = 0;
    this.listener.connection('resting');
  }

  /** The connection broke, or a request got no answer. */
  lost(): void {
    this.connects += 1;
    this.close();
    this.flush();
    this.failures += 1;
    this.listener.connection('away');
    const pause = Math.min(250 * 2 ** this.failures, LONGEST_PAUSE_MS);
    this.retry = setTimeout(() => this.connect(), pause);
  }

  private async open(turn: number): Promise<void> {
    const version = await this.world.version();
    if (turn !== this.connects) return;
    if (this.plane && this.plane.plane !== version.plane) this.forget();
    const returning = this.plane !== undefined;
    this.plane = version;
    this.listener.version(version);

    const known = this.last;
    const after = known === undefined ? await this.world.beginning() : known - 1;
    if (turn !== this.connects) return;
    const source = this.world.open(after);
    this.source = source;
    source.addEventListener('open', () => {
      this.failures = 0;
      this.listener.connection('live');
      if (returning) this.listener.returned();
      if (known !== undefined) this.proof = setTimeout(() => this.startOver(), PROOF_MS);
    });
    const hear = ({ data }: { data?: string }): void => this.hear(JSON.parse(data ?? '') as Event);
    source.addEventListener('job', hear);
    source.addEventListener('cluster', hear);
    source.addEventListener('config', hear);
    source.addEventListener('error', () => this.lost());
  }

  private hear(event: Event): void {
    clearTimeout(this.proof);
    if (this.last !== undefined && event.seq <= this.last) return;
    this.last = event.seq;
    this.buffer.push(event);
    this.flushing ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  private flush(): void {
    clearTimeout(this.flushing);
    this.flushing = undefined;
    if (this.buffer.length === 0) return;
    const batch = this.buffer;
    this.buffer = [];
    this.listener.events(batch);
  }

  private startOver(): void {
    this.forget();
    this.connect();
  }

  private forget(): void {
    this.last = undefined;
    this.buffer = [];
    this.listener.reset();
  }

  private close(): void {
    clearTimeout(this.retry);
    clearTimeout(this.proof);
    this.source?.close();
    this.source = undefined;
  }
}
