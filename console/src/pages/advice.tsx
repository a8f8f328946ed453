// What would have shortened the waits of the last days, and how to try it. It changes nothing.

import { get } from '../api/client';
import type { Advice, AdviceLine } from '../api/types';
import { duration, percent } from '../format';
import { t } from '../i18n';
import { params, setParams } from '../router';
import { Resource, useOwn } from '../store/resource';
import { Empty, Loading, Problem } from '../ui/feedback';

const DAYS = [1, 7, 14, 31];
const USUAL = 14;

/** Asked again until it is complete. */
const AGAIN_MS = 1500;

const make = (days: string): Resource<Advice> =>
  new Resource((signal) => get<Advice>('/v1/advice', { days }, signal), {
    every: AGAIN_MS,
    until: (advice) => advice.state !== 'working',
  });

export function AdvicePage() {
  const days = daysOf(params.value.get('days'));
  const resource = useOwn(String(days), make);
  const { data, error } = resource;
  const advice = data.value;
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('advice')}</h1>
        {advice?.basis && <span class="muted">{advice.basis}</span>}
        <label class="advice-days">
          <span class="muted">{t('advice.days')}</span>
          <select value={days} onChange={(event) => choose(event.currentTarget.value)}>
            {[...new Set([...DAYS, days])]
              .toSorted((a, b) => a - b)
              .map((each) => (
                <option value={each} key={each}>
                  {t('advice.nDays', { n: each })}
                </option>
              ))}
          </select>
        </label>
      </header>
      {error.value && error.value.status !== 0 && (
        <Problem error={error.value} retry={() => void resource.refresh()} />
      )}
      {advice === undefined ? (
        <Loading lines={5} />
      ) : advice.state === 'working' ? (
        <section class="panel" aria-busy="true">
          <Empty title={t('advice.working')}>
            {advice.of > 0 && t('advice.progress', { n: advice.tried, of: advice.of })}
          </Empty>
        </section>
      ) : (
        <Found advice={advice} />
      )}
    </div>
  );
}

function Found({ advice }: { advice: Advice }) {
  const now = advice.waits?.mean_seconds;
  return (
    <>
      <section class="panel" aria-label={t('advice')}>
        <p class="advice-summary">{advice.summary}</p>
        {advice.items.map((line) => (
          <Line line={line} now={now} key={line.text} />
        ))}
      </section>
      <section class="panel advice-notes" aria-label={t('advice.notes')}>
        <p class="muted">{t('advice.changesNothing')}</p>
        <ul class="muted">
          {advice.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      </section>
    </>
  );
}

function Line({ line, now }: { line: AdviceLine; now: number | undefined }) {
  return (
    <article class="advice-line" data-set={line.set ?? ''}>
      <div>
        <h2>{line.text}</h2>
        <p class="muted">{line.sure}</p>
        {line.command && (
          <p class="advice-command">
            <span class="muted">{t('advice.try')}</span> <code>{line.command}</code>
          </p>
        )}
      </div>
      {line.waits && now !== undefined && line.kind !== 'owners' && (
        <div class="gauges advice-bars">
          <Bar label={t('advice.now')} seconds={now} longest={now} kind="entitled" />
          <Bar label={t('advice.then')} seconds={line.waits.mean_seconds} longest={now} />
          {line.clusters.map(({ cluster, mean, peak, resource }) => (
            <div class="gauge" key={cluster} title={t('advice.full', { cluster, resource })}>
              <span class="cut advice-cluster">{t('advice.inUse', { cluster })}</span>
              <div
                class="meter"
                role="meter"
                aria-label={t('advice.full', { cluster, resource })}
                aria-valuemin={0}
                aria-valuemax={100}
                aria-valuenow={Math.round(mean * 100)}
              >
                <div class="meter-fill" style={{ transform: `scaleX(${Math.min(1, mean)})` }} />
                <div class="meter-mark" style={{ left: `${Math.min(1, peak) * 100}%` }} />
              </div>
              <span class="gauge-share num">{t('advice.peak', { share: percent(peak) })}</span>
            </div>
          ))}
        </div>
      )}
    </article>
  );
}

interface BarProps {
  label: string;
  seconds: number;
  longest: number;
  kind?: 'entitled';
}

function Bar({ label, seconds, longest, kind }: BarProps) {
  const share = longest > 0 ? Math.min(1, seconds / longest) : 0;
  return (
    <div class="gauge">
      <span>{label}</span>
      <div
        class={kind ? `meter meter-${kind}` : 'meter'}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.round(longest)}
        aria-valuenow={Math.round(seconds)}
      >
        <div class="meter-fill" style={{ transform: `scaleX(${share})` }} />
      </div>
      <span class="gauge-share num">{duration(seconds * 1000)}</span>
    </div>
  );
}

/** From the address; 14 if it says nothing usable. */
export function daysOf(text: string | null): number {
  const days = Number(text);
  return Number.isInteger(days) && days >= 1 && days <= 31 ? days : USUAL;
}

function choose(days: string): void {
  const next = new URLSearchParams(params.peek());
  next.set('days', days);
  setParams(next);
}
