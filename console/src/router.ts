// Hash routes: `#/jobs/nightly?attempt=2`. The server knows only `/`.

import { computed, signal } from '@preact/signals';

export type Route =
  | { page: 'overview' | 'jobs' | 'queue' | 'owners' | 'advice' | 'events' | 'timeline' | 'submit' | 'missing' }
  | { page: 'job' | 'cluster'; name: string };

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
  visits.arrive();
});

/** The current route. */
export const route = computed(() => parse(hash.value));
/** The query after the `?`. */
export const params = computed(() => new URLSearchParams(hash.value.split('?')[1]));

export const link = {
  overview: '#/',
  jobs: '#/jobs',
  queue: '#/queue',
  owners: '#/owners',
  advice: '#/advice',
  timeline: '#/timeline',
  events: '#/events',
  submit: '#/submit',
  job: (id: string): string => `#/jobs/${encodeURIComponent(id)}`,
  cluster: (name: string): string => `#/clusters/${encodeURIComponent(name)}`,
  jobsWith: (query: Record<string, string>): string => `#/jobs?${new URLSearchParams(query).toString()}`,
  jobsOf: (cluster: string): string => `#/jobs?cluster=${encodeURIComponent(cluster)}`,
};

export function go(to: string): void {
  location.hash = to;
}

/** Changes the query without a history entry for each key pressed. */
export function setParams(next: URLSearchParams): void {
  const query = next.toString();
  history.replaceState(history.state, '', location.hash.split('?')[0] + (query && `?${query}`));
  hash.value = location.hash;
  visits.arrive();
}

interface Browser {
  state(): unknown;
  address(): string;
  /** Names the current history entry, without another one. */
  name(state: unknown): void;
}

/**
 * What each entry of the history showed: its address, and how far its list was scrolled.
 * Back and forward return to an entry with its number; a link makes a new one without.
 */
export class Visits {
  private number = 0;
  private previous: number | undefined;
  private next = 1;
  private readonly addresses = new Map<number, string>();
  private readonly tops = new Map<number, number>();

  constructor(private readonly browser: Browser) {}

  arrive(): void {
    const { visit } = (this.browser.state() ?? {}) as { visit?: number };
    const known = visit !== undefined && this.addresses.has(visit);
    const number = known ? visit : this.next++;
    if (!known) this.browser.name({ visit: number });
    // The entry before this one, not the one that was left by going back.
    if (number !== this.number) this.previous = known ? undefined : this.number;
    this.number = number;
    this.addresses.set(number, this.browser.address());
  }

  get current(): number {
    return this.number;
  }

  /** Whether the browser's Back leads to a page of this kind. */
  cameFrom(page: Route['page']): boolean {
    const before = this.previous === undefined ? undefined : this.addresses.get(this.previous);
    return before !== undefined && parse(before).page === page;
  }

  /** The address of the latest page of this kind, with its filters. */
  latest(page: Route['page']): string | undefined {
    const all = [...this.addresses].toSorted(([a], [b]) => b - a);
    return all.find(([, address]) => parse(address).page === page)?.[1];
  }

  leave(number: number, top: number): void {
    this.tops.set(number, top);
  }

  topOf(number: number): number {
    return this.tops.get(number) ?? 0;
  }
}

export const visits = new Visits({
  state: () => history.state,
  address: () => location.hash,
  name: (state) => history.replaceState(state, ''),
});
visits.arrive();

export function parse(text: string): Route {
  const [path = ''] = text.replace(/^#\/?/, '').split('?');
  const [first = '', second, ...more] = path.split('/');
  if (more.length > 0) return { page: 'missing' };
  if (second) {
    const name = decode(second);
    if (first === 'jobs') return { page: 'job', name };
    if (first === 'clusters') return { page: 'cluster', name };
    return { page: 'missing' };
  }
  switch (first) {
    case '':
      return { page: 'overview' };
    case 'jobs':
    case 'queue':
    case 'owners':
    case 'advice':
    case 'timeline':
    case 'events':
    case 'submit':
      return { page: first };
    default:
      return { page: 'missing' };
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
