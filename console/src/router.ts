// Hash routes: `#/jobs/nightly?attempt=2`. The server knows only `/`.

import { computed, signal } from '@preact/signals';

export type Route =
  | { page: 'overview' | 'jobs' | 'queue' | 'owners' | 'advice' | 'events' | 'timeline' | 'submit' | 'missing' }
  | { page: 'job' | 'cluster'; name: string };

const hash = signal(location.hash);
addEventListener('hashchange', () => (hash.value = location.hash));

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
  jobsOf: (cluster: string): string => `#/jobs?cluster=${encodeURIComponent(cluster)}`,
};

export function go(to: string): void {
  location.hash = to;
}

/** Changes the query without a history entry for each key pressed. */
export function setParams(next: URLSearchParams): void {
  const query = next.toString();
  history.replaceState(null, '', location.hash.split('?')[0] + (query && `?${query}`));
  hash.value = location.hash;
}

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
