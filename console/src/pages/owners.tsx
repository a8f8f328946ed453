// Who shares the pool: what each owner or group is entitled to, had and holds, and whose turn is next.

import type { ComponentChildren } from 'preact';
import type { OwnerShare } from '../api/types';
import { amount, duration, number, part, percent } from '../format';
import { t } from '../i18n';
import { language } from '../prefs';
import { link } from '../router';
import { owners } from '../store/pool';
import { useResource } from '../store/resource';
import { Empty, Loading, Problem } from '../ui/feedback';
import { Since } from '../ui/time';

/** Those whose turn is next come first; nobody reads more rows. */
const MOST_ROWS = 200;

export function OwnersPage() {
  useResource(owners);
  const { data, error } = owners;
  const found = data.value;
  const scale = found ? scaleOf(found.items) : 1;
  const rows = found?.items.slice(0, MOST_ROWS) ?? [];
  const more = found ? found.more + found.items.length - rows.length : 0;
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('owners')}</h1>
        {found && (
          <span class="muted">{t('owners.half', { time: duration(found.half_life_seconds * 1000) })}</span>
        )}
      </header>
      {error.value && error.value.status !== 0 && (
        <Problem error={error.value} retry={() => void owners.refresh()} />
      )}
      {found === undefined ? (
        <Loading lines={5} />
      ) : (
        <section class="panel" aria-label={t('owners')}>
          {found.items.length === 0 && <Empty title={t('owners.none')}>{t('owners.noneHint')}</Empty>}
          {rows.map((owner) => (
            <OwnerEntry owner={owner} scale={scale} key={owner.name ?? ''} />
          ))}
          {found.items.length > 0 && (
            <p class="muted panel-foot owners-foot">{t('owners.scale', { share: percent(scale) })}</p>
          )}
          {more > 0 && <p class="muted panel-foot owners-foot">{t('owners.more', { n: more })}</p>}
        </section>
      )}
    </div>
  );
}

function OwnerEntry({ owner, scale }: { owner: OwnerShare; scale: number }) {
  const name = owner.name ?? t('owners.unowned');
  return (
    <article class="owner" data-owner={owner.name ?? ''} aria-label={name}>
      <header>
        <h2 class="cut" title={name}>
          {owner.name === undefined ? name : <a href={link.jobsWith({ owner: owner.name })}>{name}</a>}
        </h2>
        {owner.turn !== undefined && (
          <span class={owner.turn === 1 ? 'chip chip-accent' : 'chip chip-idle'} data-turn={owner.turn}>
            {owner.turn === 1 ? t('owners.next') : t('owners.turn', { n: place(owner.turn) })}
          </span>
        )}
        {owner.preempts && <span class="chip chip-idle">{t('owners.preempts')}</span>}
        <span class="muted num">{t('owners.weight', { n: number(owner.weight, 3) })}</span>
        {owner.members && (
          <span class="row-second muted">{t('owners.members', { names: owner.members.join(', ') })}</span>
        )}
      </header>
      <div class="gauges owner-bars">
        <Bar label={t('owners.entitled')} share={owner.entitled} scale={scale} kind="entitled" />
        <Bar label={t('owners.had')} share={owner.had} scale={scale} mark={owner.entitled} tip={t('owners.hadTip')} />
        <Bar label={t('owners.holds')} share={owner.holds} scale={scale} mark={owner.entitled} />
      </div>
      <dl class="owner-facts">
        <Fact name={t('owners.live')}>{number(owner.live)}</Fact>
        <Fact name={t('owners.queued')}>
          {owner.max_queued === undefined
            ? number(owner.queued)
            : `${number(owner.queued)} / ${number(owner.max_queued)}`}
        </Fact>
        <Fact name={t('owners.wait')}>
          {owner.queued_at === undefined ? (
            t('none')
          ) : owner.queued_job === undefined ? (
            <Since at={owner.queued_at} />
          ) : (
            <a href={link.job(owner.queued_job)} title={owner.queued_job}>
              <Since at={owner.queued_at} />
            </a>
          )}
        </Fact>
        <Fact name={t('owners.held')}>{holdings(owner) || t('none')}</Fact>
        {owner.max_priority !== undefined && (
          <Fact name={t('owners.priority')}>{t('owners.upTo', { n: owner.max_priority })}</Fact>
        )}
      </dl>
      <p class="muted owner-text">{owner.text}</p>
    </article>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="num">{children}</dd>
    </div>
  );
}

interface BarProps {
  label: string;
  share: number;
  scale: number;
  kind?: 'entitled';
  /** The entitled share. */
  mark?: number;
  tip?: string;
}

function Bar({ label, share, scale, kind, mark, tip }: BarProps) {
  const over = mark !== undefined && share > mark;
  const width = Math.min(1, share / scale);
  return (
    <div class="gauge" title={tip}>
      <span>{label}</span>
      <div
        class={`meter${over ? ' meter-over' : ''}${kind ? ` meter-${kind}` : ''}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        title={mark === undefined ? undefined : t('owners.mark', { share: small(mark) })}
      >
        <div class="meter-fill" style={{ transform: `scaleX(${width})` }} />
        {mark !== undefined && (
          <div class="meter-mark" style={{ left: `${Math.min(1, mark / scale) * 100}%` }} />
        )}
      </div>
      <span class="gauge-share num">{small(share)}</span>
    </div>
  );
}

const SCALES = [0.05, 0.1, 0.25, 0.5];

/** Where the bars end: one scale for all owners, so that they can be compared. */
export function scaleOf(items: OwnerShare[]): number {
  const most = Math.max(0, ...items.map((owner) => Math.max(owner.entitled, owner.had, owner.holds)));
  return SCALES.find((scale) => most <= scale) ?? 1;
}

/** `33 %`, and `0.4 %` of small shares. */
export function small(share: number): string {
  return share > 0 && share < 0.0995 ? `${number(share * 100, 1)} %` : percent(share);
}

/** `3rd` in English, `3` in Chinese. */
export function place(turn: number): string {
  if (language.value === 'zh') return number(turn);
  const ends = { one: 'st', two: 'nd', few: 'rd', other: 'th', zero: 'th', many: 'th' };
  return `${turn}${ends[new Intl.PluralRules('en', { type: 'ordinal' }).select(turn)]}`;
}

const HELD = ['CPU', 'GPU', 'memory'];

/** `48 / 64 CPU · 3 GPU · 16 / 32 GiB`: what it holds, of what it may have. */
export function holdings(owner: OwnerShare): string {
  return HELD.filter((name) => owner.held[name] || owner.limit[name])
    .map((name) => {
      const [held, limit] = [owner.held[name] ?? 0, owner.limit[name]];
      const text = limit ? part(name, held, limit) : amount(name, held);
      return name === 'memory' ? text : `${text} ${name}`;
    })
    .join(' · ');
}
