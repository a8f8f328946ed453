// Lines and bars over time, as plain SVG.

import { useSignal } from '@preact/signals';
import type { Moment, Series } from '../api/types';
import { clock } from '../format';
import { t } from '../i18n';
import { now } from '../store/clock';
import { axis } from './lanes';

/** The line through the known values, with gaps. Width and height are the box. */
export function path(values: Series, max: number, width: number, height: number): string {
  const step = width / Math.max(1, values.length - 1);
  let pen = 'M';
  let drawn = '';
  values.forEach((value, index) => {
    if (value === null) {
      pen = 'M';
      return;
    }
    const y = height - (Math.min(value, max) / max) * height;
    drawn += `${pen}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    pen = 'L';
  });
  return drawn;
}

/** Known values between unknown ones, which no line shows. */
export function dots(values: Series, max: number, width: number, height: number): string {
  const step = width / Math.max(1, values.length - 1);
  const known = (index: number): boolean => (values[index] ?? null) !== null;
  return values
    .map((value, index) => {
      if (value === null || known(index - 1) || known(index + 1)) return '';
      const y = height - (Math.min(value, max) / max) * height;
      return `M${(index * step).toFixed(1)} ${y.toFixed(1)}h0`;
    })
    .join('');
}

/** The same, closed along the bottom: one piece for each run of known values. */
export function area(values: Series, max: number, width: number, height: number): string {
  const step = width / Math.max(1, values.length - 1);
  let drawn = '';
  let start: number | undefined;
  for (let index = 0; index <= values.length; index += 1) {
    const known = index < values.length && values[index] !== null;
    if (known) start ??= index;
    if (known || start === undefined) continue;
    const run = values.slice(start, index) as number[];
    const points = run.map((value, offset) => {
      const y = height - (Math.min(value, max) / max) * height;
      return `${((start! + offset) * step).toFixed(1)} ${y.toFixed(1)}`;
    });
    drawn += `M${(start * step).toFixed(1)} ${height}L${points.join('L')}L${((index - 1) * step).toFixed(1)} ${height}Z`;
    start = undefined;
  }
  return drawn;
}

/** One small line, with the threshold if there is one. */
export function Sparkline({
  values,
  max = 1,
  threshold,
  label,
}: {
  values: Series;
  max?: number;
  threshold?: number;
  label: string;
}) {
  const [width, height] = [240, 32];
  const y = threshold === undefined ? 0 : height - threshold * height;
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path class="spark-area" d={area(values, max, width, height)} />
      {threshold !== undefined && <path class="spark-limit" d={`M0 ${y}H${width}`} />}
      <path class="spark-line" d={path(values, max, width, height)} />
    </svg>
  );
}

export interface Line {
  name: string;
  values: Series;
  /** The number of the line colour, from 1. */
  colour: number;
}

interface ChartProps {
  title: string;
  moments: Moment[];
  lines: Line[];
  /** The top; default: a little above the highest value. */
  max?: number;
  threshold?: number;
  show: (value: number | null | undefined) => string;
}

const WIDTH = 600;
const HEIGHT = 140;

/** Several lines with a time axis; pointing at it reads the values of that moment. */
export function Chart({ title, moments, lines, max, threshold, show }: ChartProps) {
  const pointed = useSignal<number | undefined>(undefined);
  const highest = Math.max(1, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const top = max ?? niceTop(highest);
  const index = Math.min(pointed.value ?? moments.length - 1, moments.length - 1);
  const x = (index / Math.max(1, moments.length - 1)) * WIDTH;
  const at = moments[index];
  const whole = { from: moments[0] ?? 0, to: moments[moments.length - 1] ?? 0 };

  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    pointed.value = Math.round(Math.min(1, Math.max(0, share)) * (moments.length - 1));
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="legend">
          {lines.map((line) => (
            <span class={`legend-item line-${line.colour}`} key={line.name}>
              {line.name} <b class="num">{show(line.values[index])}</b>
            </span>
          ))}
          <span class="muted num">
            {pointed.value === undefined || at === undefined ? t('chart.now') : clock(at, now.value)}
          </span>
        </span>
      </figcaption>
      <div class="chart-box">
        <div class="chart-scale num muted" aria-hidden="true">
          <span>{show(top)}</span>
          <span>{show(top / 2)}</span>
          <span>{show(0)}</span>
        </div>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={title}
          onPointerMove={point}
          onPointerLeave={() => (pointed.value = undefined)}
        >
          <path class="chart-grid" d={`M0 .5H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 0.5}H${WIDTH}`} />
          {threshold !== undefined && (
            <path class="spark-limit" d={`M0 ${HEIGHT - (threshold / top) * HEIGHT}H${WIDTH}`} />
          )}
          {lines.map((line) => (
            <path
              class={`chart-line line-${line.colour}`}
              key={line.name}
              d={path(line.values, top, WIDTH, HEIGHT)}
            />
          ))}
          {lines.map((line) => (
            <path
              class={`chart-line chart-dots line-${line.colour}`}
              key={line.name}
              d={dots(line.values, top, WIDTH, HEIGHT)}
            />
          ))}
          {pointed.value !== undefined && <path class="chart-pointer" d={`M${x} 0V${HEIGHT}`} />}
        </svg>
      </div>
      <div class="chart-times num muted" aria-hidden="true">
        {[0, 0.5, 1].map((share) => {
          const moment = moments[Math.round(share * (moments.length - 1))];
          return <span key={share}>{moment === undefined ? '' : axis(moment, whole)}</span>;
        })}
      </div>
    </figure>
  );
}

const DURATIONS_S = [
  2, 4, 10, 20, 40, 60, 120, 240, 600, 1200, 2400, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800,
];

/** A duration in seconds at or above all of these, of which the half can be read, too. */
export function topDuration(...all: Series[]): number {
  const highest = Math.max(1, ...all.flat().map((value) => value ?? 0));
  return DURATIONS_S.find((each) => each >= highest) ?? Math.ceil(highest / 172_800) * 172_800;
}

/** Even, so that half of it is a whole number too. */
function niceTop(highest: number): number {
  const magnitude = 10 ** Math.floor(Math.log10(highest));
  const step = [2, 4, 6, 8, 10].find((each) => each * magnitude >= highest) ?? 10;
  return step * magnitude;
}

/** Ended jobs per step: succeeded below, failed above. */
export function Bars({ good, bad, label }: { good: number[]; bad: number[]; label: string }) {
  const [width, height] = [240, 32];
  const top = Math.max(1, ...good.map((value, index) => value + (bad[index] ?? 0)));
  const step = width / Math.max(1, good.length);
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {good.map((value, index) => {
        const [low, high] = [(value / top) * height, ((bad[index] ?? 0) / top) * height];
        return (
          <g key={index}>
            <rect class="bar-good" x={index * step} y={height - low} width={step * 0.7} height={low} />
            <rect class="bar-bad" x={index * step} y={height - low - high} width={step * 0.7} height={high} />
          </g>
        );
      })}
    </svg>
  );
}
