// Bars over time that do not overlap, as one shape for each colour: thousands cost as much as a few.

import { useSignal } from '@preact/signals';
import type { Moment } from '../api/types';
import { clock } from '../format';
import { go, link } from '../router';
import type { Bar, Window } from '../store/bars';

const WIDTH = 1000;
/** The narrowest bar. */
const LEAST = 2;
/** The height of one cluster's bars, and of one line of them. */
const [MOST_HEIGHT, MOST_LINE, LEAST_LINE] = [168, 14, 3];
/** Closer than this to a bar counts as on it. */
const NEAR = 4;

/** `14:03`, or `15 Nov` where more than two days are shown. */
export function axis(at: Moment, window: Window): string {
  const long = window.to - window.from > 48 * 3_600_000;
  const date = new Date(at);
  if (long) return clock(at, 0).split(' ').slice(0, -1).join(' ');
  const two = (part: number): string => String(part).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Where lines are so low that not all fit, the rest share the last. */
export function lineHeight(lines: number): number {
  return Math.max(LEAST_LINE, Math.min(MOST_LINE, Math.floor(MOST_HEIGHT / Math.max(1, lines))));
}

/** One shape for each colour. */
export function shapes(lines: Bar[][], window: Window, colour: (bar: Bar) => string): Map<string, string> {
  const [height, scale] = [lineHeight(lines.length), WIDTH / (window.to - window.from)];
  const most = Math.floor(MOST_HEIGHT / height);
  const drawn = new Map<string, string>();
  lines.forEach((line, index) => {
    const y = Math.min(index, most - 1) * height;
    const bottom = Math.max(1, height - (height > 4 ? 2 : 1));
    for (const bar of line) {
      const from = Math.max(0, (bar.from - window.from) * scale);
      const to = Math.min(WIDTH, (bar.to - window.from) * scale);
      const width = Math.max(LEAST, to - from);
      const shape = `M${Math.min(from, WIDTH - width).toFixed(1)} ${y}h${width.toFixed(1)}v${bottom}h-${width.toFixed(1)}z`;
      drawn.set(colour(bar), (drawn.get(colour(bar)) ?? '') + shape);
    }
  });
  return drawn;
}

/** The bar of this line at this moment, or the nearest that is close. */
export function barAt(line: Bar[] | undefined, at: Moment, near: number): Bar | undefined {
  const away = (bar: Bar): number => Math.max(bar.from - at, at - bar.to, 0);
  const best = line?.toSorted((a, b) => away(a) - away(b))[0];
  return best && away(best) <= near ? best : undefined;
}

export function LaneChart(given: {
  lines: Bar[][];
  window: Window;
  colour: (bar: Bar) => string;
  label: string;
  point: (bar: Bar | undefined) => void;
  pointed: Bar | undefined;
  zoom: (window: Window) => void;
}) {
  const { lines, window } = given;
  const dragged = useSignal<{ from: number; to: number } | undefined>(undefined);
  const height = lineHeight(lines.length);
  const whole = Math.max(height, Math.min(MOST_HEIGHT, lines.length * height));
  const span = window.to - window.from;

  const share = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const find = (event: PointerEvent): Bar | undefined => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const line = Math.floor((event.clientY - box.top) / height);
    return barAt(lines[line], window.from + share(event) * span, (NEAR / box.width) * span);
  };
  const move = (event: PointerEvent): void => {
    if (dragged.value) dragged.value = { ...dragged.value, to: share(event) };
    else given.point(find(event));
  };
  const begin = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    dragged.value = { from: share(event), to: share(event) };
  };
  const end = (event: PointerEvent): void => {
    const drag = dragged.value;
    dragged.value = undefined;
    if (!drag) return;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if ((to - from) * span >= 10_000 && to - from > 0.01) {
      given.zoom({ from: window.from + from * span, to: window.from + to * span });
      return;
    }
    const bar = find(event);
    given.point(bar);
    // A finger has pointed at nothing before: it reads first.
    if (bar?.id !== undefined && event.pointerType === 'mouse') go(link.job(bar.id));
  };
  const { pointed } = given;
  const isMine = pointed !== undefined && lines.some((line) => line.includes(pointed));
  return (
    <svg
      class={isMine && pointed.id !== undefined ? 'lanes lanes-link' : 'lanes'}
      viewBox={`0 0 ${WIDTH} ${whole}`}
      style={{ height: `${whole}px` }}
      preserveAspectRatio="none"
      role="img"
      aria-label={given.label}
      onPointerMove={move}
      onPointerDown={begin}
      onPointerUp={end}
      onPointerCancel={() => (dragged.value = undefined)}
    >
      <path class="lanes-ground" d={`M0 0h${WIDTH}v${whole}H0z`} />
      <path class="chart-grid" d={`M250 0V${whole}M500 0V${whole}M750 0V${whole}`} />
      {[...shapes(lines, window, given.colour)].map(([colour, shape]) => (
        <path class={colour} key={colour} d={shape} />
      ))}
      {isMine && <path class="lanes-pointed" d={[...shapes(lines.map((line) => line.filter((bar) => bar === pointed)), window, () => '').values()].join('')} />}
      {dragged.value && (
        <path
          class="lanes-drag"
          d={`M${dragged.value.from * WIDTH} 0H${dragged.value.to * WIDTH}V${whole}H${dragged.value.from * WIDTH}z`}
        />
      )}
    </svg>
  );
}
