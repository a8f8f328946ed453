// Data that is fetched while it is on the screen, and again when it may have changed.

import { effect, signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { ApiError } from '../api/client';
import type { Event } from '../api/types';
import { language } from '../prefs';
import { batch, connection, epoch, leaderless, suspect } from './live';

interface Options<T> {
  /** Fetch again this often: for data that changes without an event. */
  every?: number;
  /** Stop once this holds. */
  until?: (data: T) => boolean;
  /** Events that change it; default: none. */
  concerns?: (event: Event) => boolean;
}

/** Followers answer these while no replica leads. */
const WITHOUT_LEADER = ['no_leader', 'leader_lost'];

/** Events lead to at most one request in this time. */
const AT_MOST_EVERY_MS = 1000;

export class Resource<T> {
  readonly data = signal<T | undefined>(undefined);
  readonly error = signal<ApiError | undefined>(undefined);
  private users = 0;
  private stop: (() => void) | undefined;
  private asked = 0;
  private soon: ReturnType<typeof setTimeout> | undefined;
  /** Of the request that is under way. */
  private abort: AbortController | undefined;
  /** Something changed since that request was sent. */
  private stale = false;
  /** No replica led the control plane when it was last asked. */
  private waits = false;

  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly options: Options<T> = {},
  ) {}

  /** Fetches now; aborts a request that is under way. */
  async refresh(): Promise<void> {
    clearTimeout(this.soon);
    this.soon = undefined;
    this.stale = false;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    this.asked = Date.now();
    try {
      const answer = await this.ask(abort.signal);
      if (abort.signal.aborted) return;
      this.data.value = answer;
      this.error.value = undefined;
      this.wait(false);
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      const waits = WITHOUT_LEADER.includes(error.code);
      this.wait(waits);
      if (waits) {
        // The banner says so, and what is shown stays. The next leader is there within seconds.
        this.stale = true;
      } else {
        this.error.value = error;
        if (error.status === 0) suspect();
      }
    }
    this.abort = undefined;
    if (this.stale) this.refreshSoon();
  }

  private wait(waits: boolean): void {
    if (waits === this.waits) return;
    this.waits = waits;
    leaderless.value += waits ? 1 : -1;
  }

  /** Keeps it fresh until the returned function is called. */
  watch(): () => void {
    this.users += 1;
    if (this.users === 1) this.begin();
    return () => {
      this.users -= 1;
      if (this.users === 0) this.stop?.();
    };
  }

  private begin(): void {
    const { every, until, concerns } = this.options;
    const timer =
      every &&
      setInterval(() => {
        const data = this.data.peek();
        const settled = data !== undefined && until?.(data);
        if (!settled && !document.hidden && connection.peek() === 'live') this.refreshSoon();
      }, every);
    const forgetEpoch = effect(() => {
      void epoch.value;
      // Explanations come in the chosen language.
      void language.value;
      void this.refresh();
    });
    const forgetBatch = effect(() => {
      if (concerns && batch.value.some(concerns)) this.refreshSoon();
    });
    this.stop = () => {
      clearInterval(timer);
      clearTimeout(this.soon);
      this.soon = undefined;
      this.abort?.abort();
      this.abort = undefined;
      this.wait(false);
      forgetEpoch();
      forgetBatch();
    };
  }

  private refreshSoon(): void {
    // Wait for a slow answer: asking again would abort it, and none would ever arrive.
    if (this.abort) {
      this.stale = true;
      return;
    }
    const wait = this.asked + AT_MOST_EVERY_MS - Date.now();
    this.soon ??= setTimeout(() => void this.refresh(), Math.max(0, wait));
  }
}

/** A shared resource, kept fresh while the component is there. */
export function useResource<T>(resource: Resource<T>): Resource<T> {
  useEffect(() => resource.watch(), [resource]);
  return resource;
}

/** A resource of the component's own, for the object of this name. */
export function useOwn<T>(name: string, make: (name: string) => Resource<T>): Resource<T> {
  const resource = useMemo(() => make(name), [name]);
  return useResource(resource);
}
