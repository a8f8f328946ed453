// Which jobs the list shows, and in what order. All of it is in the address.

import { computed, effect, signal } from '@preact/signals';
import { KINDS, STATES, type Kind, type State } from '../api/types';
import { number } from '../format';
import { t, word } from '../i18n';
import { params, setParams } from '../router';
import { now } from '../store/clock';
import { count, matching, SORTS, sorted, sortOf, sortText, UNOWNED, type Filter } from '../store/joblist';
import { jobs } from '../store/jobs';
import { clusters, queues } from '../store/pool';
import { headOf, neverRuns, stuck } from '../store/reasons';
import { useResource } from '../store/resource';
import { StateBadge } from '../ui/badges';

export const text = signal('');

/** Time ranges in hours. */
const RANGES = { '1h': 1, '24h': 24, '7d': 7 * 24 } as const;
type Range = keyof typeof RANGES;
const HOUR_MS = 3_600_000;

/** A range moves once a minute: filtering thousands of jobs every second shows nothing new. */
const minute = computed(() => Math.floor(now.value / 60_000) * 60_000);

/** Words that other programs show for a state are accepted in addresses, too. */
const ALSO: Record<string, State> = { waiting: 'queued', starting: 'pending', unreachable: 'unknown' };

/** The reasons of queued jobs. */
export const heads = computed(() => queues.data.value?.items.flatMap((queue) => queue.heads ?? []) ?? []);
export const reasonsOf = computed(() => headOf(heads.value));
const never = computed(() => stuck(heads.value));

export const filter = computed(() => read(params.value, text.value));
export const sort = computed(() => sortOf(params.value.get('sort')));
const matched = computed(() => jobs.value.filter(matching(filter.value)));
export const shown = computed(() =>
  sorted(matched.value, sort.value, sort.value.by === 'took' ? minute.value : 0),
);
const counts = computed(() => count(jobs.value.filter(matching({ ...filter.value, states: [] }))));

/** The values that occur, for the lists to choose from. */
const tags = computed(() => occurring(jobs.value.flatMap((job) => job.tags ?? [])));
export const ownersSeen = computed(() => occurring(jobs.value.flatMap((job) => job.owner ?? [])));

function occurring(values: string[]): string[] {
  return [...new Set(values)].toSorted().slice(0, 200);
}

function read(query: URLSearchParams, words: string): Filter {
  const states = (query.get('state') ?? '')
    .split(',')
    .map((each) => ALSO[each] ?? each)
    .filter((each): each is State => STATES.includes(each as State));
  const kind = KINDS.find((each) => each === query.get('kind'));
  const [cluster, tag, owner] = [query.get('cluster'), query.get('tag'), query.get('owner')];
  const range = rangeOf(query);
  return {
    states,
    text: words,
    ...(kind && { kind }),
    ...(cluster && { cluster }),
    ...(tag && { tag }),
    ...(owner && { owner }),
    ...(range && { since: minute.value - RANGES[range] * HOUR_MS }),
    ...(query.has('never') && { only: (job) => isStuck(job) }),
  };
}

function rangeOf(query: URLSearchParams): Range | undefined {
  return (Object.keys(RANGES) as Range[]).find((each) => each === query.get('since'));
}

function isStuck(job: Parameters<ReturnType<typeof headOf>>[0]): boolean {
  const head = job.state === 'queued' ? reasonsOf.value(job) : undefined;
  return head !== undefined && neverRuns(head.clusters);
}

export function isSet(): boolean {
  const { states, kind, cluster, tag, owner, since, only, text: words } = filter.value;
  const given = kind ?? cluster ?? tag ?? owner ?? since ?? only;
  return states.length > 0 || given !== undefined || words.trim() !== '';
}

export function set(name: string, value: string): void {
  const next = new URLSearchParams(params.peek());
  if (value) next.set(name, value);
  else next.delete(name);
  setParams(next);
}

export function clear(): void {
  text.value = '';
  setParams(new URLSearchParams());
}

/** The search text follows the address, and is written back to it. */
export function keepTextInAddress(): () => void {
  const follow = effect(() => {
    const said = params.value.get('q') ?? '';
    if (said !== text.peek()) text.value = said;
  });
  const keep = effect(() => {
    if (text.value !== (params.peek().get('q') ?? '')) set('q', text.value);
  });
  return () => {
    follow();
    keep();
  };
}

/** The number of jobs in each state; a click shows only those. */
export function States() {
  useResource(queues);
  const chosen = filter.value.states;
  const toggle = (state: State): void => {
    const next = chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state];
    set('state', next.join(','));
  };
  const onlyNever = params.value.has('never');
  return (
    <div class="state-filter" role="group" aria-label={t('state')}>
      {STATES.map((state) => (
        <button
          type="button"
          key={state}
          data-filter={state}
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateBadge state={state} />
          <span class="num muted">{number(counts.value[state])}</span>
        </button>
      ))}
      {(never.value > 0 || onlyNever) && (
        <button
          type="button"
          data-filter="never"
          aria-pressed={onlyNever}
          title={t('jobs.neverTip')}
          onClick={() => set('never', onlyNever ? '' : '1')}
        >
          {t('jobs.never')} <span class="num muted">{number(never.value)}</span>
        </button>
      )}
    </div>
  );
}

export function Filters() {
  useResource(clusters);
  const names = clusters.data.value?.map((each) => each.name) ?? [];
  const { kind, cluster, tag, owner } = filter.value;
  const owners = ownersSeen.value;
  return (
    <div class="filters">
      <Choice
        name="since"
        all={t('jobs.anyTime')}
        value={rangeOf(params.value)}
        choices={Object.keys(RANGES)}
        show={(each) => t(`jobs.since.${each as Range}`)}
      />
      <Choice name="cluster" all={t('jobs.anyCluster')} value={cluster} choices={names} />
      {(owners.length > 0 || owner) && (
        <Choice
          name="owner"
          all={t('jobs.anyOwner')}
          value={owner}
          choices={[...owners, UNOWNED]}
          show={(each) => (each === UNOWNED ? t('owners.unowned') : each)}
        />
      )}
      <Choice
        name="kind"
        all={t('jobs.anyKind')}
        value={kind}
        choices={[...KINDS]}
        show={(each) => word('kind', each as Kind)}
      />
      <Choice name="tag" all={t('jobs.anyTag')} value={tag} choices={tags.value} />
      <SortChoice />
    </div>
  );
}

/** On a phone, where the columns have no heads to click. */
function SortChoice() {
  const orders = SORTS.flatMap((by) => [by, `-${by}`]).filter((each) => each !== '-submitted');
  return (
    <Choice
      name="sort"
      all={t('sort.newest')}
      value={sortText(sort.value)}
      choices={orders}
      show={(each) => `${t(`sort.${sortOf(each).by}`)} ${each.startsWith('-') ? '↓' : '↑'}`}
    />
  );
}

interface ChoiceProps {
  name: string;
  all: string;
  value: string | undefined;
  choices: string[];
  show?: (value: string) => string;
}

function Choice({ name, all, value, choices, show }: ChoiceProps) {
  // A value from the address stays chosen even if it is not among the choices.
  const offered = value && !choices.includes(value) ? [value, ...choices] : choices;
  return (
    <select
      name={name}
      aria-label={all}
      value={value ?? ''}
      onChange={(event) => set(name, event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {offered.map((each) => (
        <option value={each} key={each}>
          {show ? show(each) : each}
        </option>
      ))}
    </select>
  );
}
