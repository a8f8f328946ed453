// States and conditions: shown by shape and word, never by colour alone.

import type { Cluster, State } from '../api/types';
import { duration } from '../format';
import { t, word } from '../i18n';
import { now } from '../store/clock';

const GLYPHS: Record<State, string> = {
  queued: 'M6 2.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6z',
  dispatching: 'M2 6h7M6.2 3l3 3-3 3',
  pending: 'M6 2.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6zM6 4v2.2l1.4 1',
  running: 'M3.6 2.4v7.2L9.8 6z',
  unknown: 'M4 4.4a2 2 0 1 1 2.6 1.9q-.6.3-.6 1.1M6 9.8v.01',
  succeeded: 'M2.2 6.4l2.6 2.6 5-5.6',
  failed: 'M3 3l6 6M9 3l-6 6',
  stopped: 'M3 3h6v6H3z',
};

export function StateBadge({ state, stopping }: { state: State; stopping?: boolean | undefined }) {
  const ended = state === 'succeeded' || state === 'failed' || state === 'stopped';
  return (
    <span class={`state state-${state}`} data-state={state}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d={GLYPHS[state]} />
      </svg>
      {stopping && !ended ? word('state', 'stopping') : word('state', state)}
    </span>
  );
}

/** The condition of a cluster in one word: what keeps work from it comes first. */
export function condition(cluster: Cluster): { name: string; tone: 'good' | 'warn' | 'bad' | 'idle' } {
  if (cluster.health.state === 'unhealthy') return { name: 'unhealthy', tone: 'bad' };
  if (cluster.health.state === 'unauthorized') return { name: 'unauthorized', tone: 'bad' };
  if (cluster.health.state === 'never_seen') return { name: 'never_seen', tone: 'idle' };
  if (cluster.leaving) return { name: 'leaving', tone: 'warn' };
  if (cluster.draining) return { name: 'draining', tone: 'warn' };
  if (cluster.cordoned !== undefined) return { name: 'cordoned', tone: 'warn' };
  if (cluster.breaker.state !== 'closed') return { name: `breaker_${cluster.breaker.state}`, tone: 'bad' };
  return { name: 'healthy', tone: 'good' };
}

export function ConditionBadge({ cluster }: { cluster: Cluster }) {
  const { name, tone } = condition(cluster);
  return (
    <span class={`chip chip-${tone}`} data-condition={name}>
      <span class="dot" />
      {word('is', name)}
    </span>
  );
}

/** Why a cluster does not answer, or does not let the control plane in. */
export function healthNote({ health }: Cluster): string {
  const error = health.error ?? '';
  if (health.state === 'unauthorized') return t('card.unauthorized', { error });
  if (health.since_at === undefined) return error;
  return `${t('card.unhealthyFor', { time: duration(now.value - health.since_at) })} ${error}`;
}

/** All tags, or the first ones of many and how many more there are. */
export function Tags({ tags, most = Infinity }: { tags: string[] | undefined; most?: number }) {
  if (!tags?.length) return null;
  // "+1" is as wide as the tag that it would stand for.
  const shown = tags.length <= most ? tags : tags.slice(0, Math.max(1, most - 1));
  return (
    <span class="tags" title={shown.length < tags.length ? tags.join(', ') : undefined}>
      {shown.map((tag) => (
        <span class="tag" key={tag} title={tag.length > 12 ? tag : undefined}>
          {tag}
        </span>
      ))}
      {shown.length < tags.length && <span class="tag tag-more num">+{tags.length - shown.length}</span>}
    </span>
  );
}
