// Which replica leads the control plane, and which others there are. With one process, nothing.

import type { Plane } from '../api/types';
import { duration } from '../format';
import { t } from '../i18n';
import { now } from '../store/clock';
import { plane } from '../store/pool';
import { useResource } from '../store/resource';

export function PlaneSection() {
  useResource(plane);
  const known = plane.data.value;
  if (!known || known.role === 'only') return null;
  const { leader, here, replicas } = told(known, now.value);
  return (
    <section class="plane muted" aria-label={t('plane')}>
      <h2>{t('plane')}</h2>
      <dl>
        <dt>{t('plane.leader')}</dt>
        <dd class={known.leader ? undefined : 'warn'}>{leader}</dd>
        <dt>{t('plane.here')}</dt>
        <dd>{here}</dd>
      </dl>
      {replicas.length > 0 && (
        <ul aria-label={t('plane.replicas')}>
          {replicas.map(({ name, leads, text, title }) => (
            <li key={name} title={title}>
              <span class={`dot dot-${leads ? 'good' : 'idle'}`} />
              <span class="cut">{name}</span>
              <span class="num">{text}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

interface Line {
  name: string;
  leads: boolean;
  text: string;
  title: string;
}

/** The texts of the section. */
export function told(seen: Plane, at: number): { leader: string; here: string; replicas: Line[] } {
  const { leader, replica, role } = seen;
  return {
    leader: leader
      ? t('plane.leads', { name: leader.replica, time: duration(at - leader.since), epoch: String(leader.epoch) })
      : t('plane.nobody'),
    here:
      role === 'follower'
        ? t('plane.follows', { name: replica, time: behind(seen.behind_ms ?? 0) })
        : t('plane.isLeader', { name: replica }),
    replicas: (seen.replicas ?? []).map((each) => ({
      name: each.replica,
      leads: each.role === 'leader',
      text: t(each.role === 'leader' ? 'plane.role.leader' : 'plane.role.follower'),
      title: [
        each.address,
        t('status.version', { version: each.version }),
        t('plane.seen', { time: duration(at - each.seen_at) }),
      ]
        .filter(Boolean)
        .join(' · '),
    })),
  };
}

/** Usually less than a second. */
function behind(ms: number): string {
  return ms < 1000 ? `${ms} ms` : duration(ms);
}
