// What ran where, and how full the clusters were and how long jobs waited over up to 30 days.

import { useSignal } from '@preact/signals';
import type { Cluster, Moment } from '../api/types';
import { clock, duration, number, percent } from '../format';
import { t, word } from '../i18n';
import { link, params, setParams } from '../router';
import { barsOf, lanes, ranked, windowOf, type Bar, type Bars, type Window } from '../store/bars';
import { now } from '../store/clock';
import { historyOf, waitsOf } from '../store/history';
import { clusters } from '../store/pool';
import { useOwn, useResource } from '../store/resource';
import { Chart, topDuration } from '../ui/chart';
import { Empty, Loading, Problem } from '../ui/feedback';
import { axis, LaneChart } from '../ui/lanes';

const HOURS = [24, 6, 1];
const DAYS = [1, 7, 30];

export function TimelinePage() {
  useResource(clusters);
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('timeline')}</h1>
      </header>
      <RunsPanel />
      <ChartsPanel />
    </div>
  );
}

/** A value of the address, if it is one of these; else the first. */
export function choice(text: string | null, values: number[]): number {
  return values.find((value) => String(value) === text) ?? values[0]!;
}

/** `1700000000000-1700000360000`, if it is a time that can be shown. */
export function zoomed(text: string | null): string | undefined {
  const [, from, to] = /^(\d{13})-(\d{13})$/.exec(text ?? '') ?? [];
  return from && to && Number(from) < Number(to) ? `${from}-${to}` : undefined;
}

function set(changes: Record<string, string | undefined>): void {
  const next = new URLSearchParams(params.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) next.delete(name);
    else next.set(name, value);
  }
  setParams(next);
}

function Choice<T extends string | number>(given: {
  label: string;
  values: readonly T[];
  chosen: T | undefined;
  name: (value: T) => string;
  choose: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={given.label}>
      {given.values.map((value) => (
        <button
          type="button"
          key={value}
          aria-pressed={value === given.chosen}
          onClick={() => given.choose(value)}
        >
          {given.name(value)}
        </button>
      ))}
    </div>
  );
}

const COLOURS = ['state', 'owner'] as const;
type By = (typeof COLOURS)[number];

/** Owners with a colour of their own. */
const OWN_COLOURS = 6;

/** The colour of a bar: a number of a line of the legend, in the order of the legend. */
interface Legend {
  names: { name: string; colour: string; count: number }[];
  colour: (bar: Bar) => string;
}

export function legendOf(bars: Bar[], by: By): Legend {
  if (by === 'state') {
    const counts = new Map(ranked(bars.map((bar) => bar.state)));
    const states = ['running', 'unknown', 'succeeded', 'failed', 'stopped'].filter((state) => counts.has(state));
    return {
      names: states.map((state) => ({
        name: word('state', state),
        colour: `bar-${state}`,
        count: counts.get(state) ?? 0,
      })),
      colour: (bar) => `bar-${bar.state}`,
    };
  }
  const owners = ranked(bars.map((bar) => bar.owner ?? ''));
  const own = new Map(owners.slice(0, OWN_COLOURS).map(([owner], index) => [owner, `bar-hue-${index + 1}`]));
  const rest = owners.slice(OWN_COLOURS);
  const names = owners.slice(0, OWN_COLOURS).map(([owner, count]) => ({
    name: owner || t('owners.unowned'),
    colour: own.get(owner)!,
    count,
  }));
  if (rest.length > 0) {
    const count = rest.reduce((sum, [, each]) => sum + each, 0);
    names.push({ name: t('runs.others', { n: rest.length }), colour: 'bar-rest', count });
  }
  return { names, colour: (bar) => own.get(bar.owner ?? '') ?? 'bar-rest' };
}

function RunsPanel() {
  const zoom = zoomed(params.value.get('zoom'));
  const hours = choice(params.value.get('hours'), HOURS);
  const by: By = params.value.get('by') === 'owner' ? 'owner' : 'state';
  const name = zoom ?? String(hours);
  const resource = useOwn(name, barsOf);
  const found = resource.data.value;
  const error = resource.error.value;
  return (
    <section class="panel" aria-labelledby="runs-title">
      <header>
        <h2 id="runs-title">{t('runs.title')}</h2>
        <span class="grow" />
        <Choice
          label={t('runs.colours')}
          values={COLOURS}
          chosen={by}
          name={(value) => t(`runs.by.${value}`)}
          choose={(value) => set({ by: value === 'owner' ? value : undefined })}
        />
        <Choice
          label={t('runs.time')}
          values={HOURS}
          chosen={zoom ? undefined : hours}
          name={(value) => t('runs.hours', { n: value })}
          choose={(value) => set({ hours: value === HOURS[0] ? undefined : String(value), zoom: undefined })}
        />
      </header>
      {error && error.status !== 0 && <Problem error={error} retry={() => void resource.refresh()} />}
      {found === undefined ? (
        <Loading lines={5} />
      ) : (
        <Runs found={found} by={by} zoom={zoom} key={name} />
      )}
    </section>
  );
}

function Runs({ found, by, zoom }: { found: Bars; by: By; zoom: string | undefined }) {
  const pointed = useSignal<Bar | undefined>(undefined);
  const window = zoom ? windowOf(zoom, 0) : found.window;
  const legend = legendOf(found.bars, by);
  const names = new Set([
    ...(clusters.data.value ?? []).map((cluster) => cluster.name),
    ...found.bars.map((bar) => bar.cluster),
  ]);
  const zoomTo = ({ from, to }: Window): void => set({ zoom: `${Math.round(from)}-${Math.round(to)}` });
  return (
    <>
      <div class="runs-head">
        <span class="legend">
          {legend.names.map(({ name, colour, count }) => (
            <span class="legend-item" key={name}>
              <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
                <rect class={colour} width="10" height="10" />
              </svg>
              {name} <b class="num">{number(count)}</b>
            </span>
          ))}
        </span>
        <span class="grow" />
        {zoom ? (
          <>
            <span class="muted num">
              {clock(window.from, now.value)} – {clock(window.to, now.value)}
            </span>
            <button type="button" class="link" onClick={() => set({ zoom: undefined })}>
              {t('runs.unzoom')}
            </button>
          </>
        ) : (
          <span class="muted">{t('runs.hint')}</span>
        )}
      </div>
      {found.bars.length === 0 && <Empty title={t('runs.none')}>{t('runs.noneHint')}</Empty>}
      {found.bars.length > 0 &&
        [...names].toSorted().map((name) => {
          const bars = found.bars.filter((bar) => bar.cluster === name);
          return (
            <div class="runs-cluster" key={name}>
              <a class="cut" href={link.cluster(name)} title={name}>
                {name}
              </a>
              <LaneChart
                lines={lanes(bars)}
                window={window}
                colour={legend.colour}
                label={summary(name, bars)}
                point={(bar) => (pointed.value = bar)}
                pointed={pointed.value}
                zoom={zoomTo}
              />
            </div>
          );
        })}
      <div class="runs-cluster chart-axis num muted" aria-hidden="true">
        <span />
        <span>
          {[0, 0.25, 0.5, 0.75, 1].map((share) => (
            <span key={share}>{axis(window.from + share * (window.to - window.from), window)}</span>
          ))}
        </span>
      </div>
      <p class="runs-read num" data-pointed={pointed.value?.id ?? ''}>
        {pointed.value ? <Told bar={pointed.value} /> : <span class="muted">{t('runs.point')}</span>}
      </p>
      {found.cut && <p class="muted panel-foot">{t('runs.cut', { n: found.bars.length })}</p>}
    </>
  );
}

/** For those who do not see the bars. */
function summary(name: string, bars: Bar[]): string {
  const states = ranked(bars.map((bar) => bar.state));
  const counts = states.map(([state, count]) => `${number(count)} ${word('state', state)}`);
  return [name, t('runs.count', { n: bars.length }), ...counts].join(', ');
}

function Told({ bar }: { bar: Bar }) {
  const parts = [
    word('state', bar.state),
    bar.owner,
    bar.cluster,
    `${clock(bar.from, now.value)} – ${clock(bar.to, now.value)}`,
    duration(bar.to - bar.from),
  ];
  return (
    <>
      {bar.id === undefined ? <b>{t('runs.forgotten')}</b> : <a class="mono" href={link.job(bar.id)}>{bar.id}</a>}{' '}
      {parts.filter(Boolean).join(' · ')}
    </>
  );
}

function ChartsPanel() {
  const days = choice(params.value.get('days'), DAYS);
  const resource = useOwn(String(days), (name) => historyOf(Number(name)));
  const past = resource.data.value;
  const error = resource.error.value;
  const waits = past && waitsOf(past);
  return (
    <section class="panel" aria-labelledby="charts-title">
      <header>
        <h2 id="charts-title">{t('charts.title')}</h2>
        {past && <span class="muted">{t('charts.step', { time: duration(past.step_seconds * 1000) })}</span>}
        <span class="grow" />
        <Choice
          label={t('runs.time')}
          values={DAYS}
          chosen={days}
          name={(value) => t('advice.nDays', { n: value })}
          choose={(value) => set({ days: value === DAYS[0] ? undefined : String(value) })}
        />
      </header>
      {error && error.status !== 0 && <Problem error={error} retry={() => void resource.refresh()} />}
      {past === undefined || waits === undefined ? (
        <Loading lines={5} />
      ) : (
        <div class="charts">
          {Object.keys(past.clusters)
            .toSorted()
            .map((name) => (
              <Used
                key={name}
                name={name}
                known={clusters.data.value?.find((cluster) => cluster.name === name)}
                moments={past.moments}
                own={past.clusters[name]!}
              />
            ))}
          <Chart
            title={t('charts.work')}
            moments={past.moments}
            show={(value) => (value === null || value === undefined ? '–' : number(value, 1))}
            lines={[
              { name: t('overview.running'), values: past.pool.live, colour: 1 },
              { name: t('overview.queued'), values: past.pool.waiting, colour: 3 },
            ]}
          />
          <Chart
            title={t('charts.waits', { n: waits.jobs })}
            moments={past.moments}
            max={topDuration(waits.p50, waits.p90, waits.p99)}
            show={seconds}
            lines={[
              { name: t('charts.p50'), values: waits.p50, colour: 1 },
              { name: t('charts.p90'), values: waits.p90, colour: 2 },
              { name: t('charts.p99'), values: waits.p99, colour: 3 },
            ]}
          />
        </div>
      )}
    </section>
  );
}

const seconds = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : duration(value * 1000);

interface UsedProps {
  name: string;
  known: Cluster | undefined;
  moments: Moment[];
  own: { cpu: (number | null)[]; gpu: (number | null)[]; memory: (number | null)[] };
}

/** How full one cluster was. */
function Used({ name, known, moments, own }: UsedProps) {
  const gpu = own.gpu.some((value) => value !== null);
  return (
    <Chart
      title={name}
      moments={moments}
      max={1}
      show={percent}
      {...(known && { threshold: known.limits.resource_threshold })}
      lines={[
        { name: 'CPU', values: own.cpu, colour: 1 },
        ...(gpu ? [{ name: 'GPU', values: own.gpu, colour: 2 }] : []),
        { name: t('memory'), values: own.memory, colour: 3 },
      ]}
    />
  );
}
