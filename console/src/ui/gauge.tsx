// The utilization of a cluster's resources, with its threshold and how far it can grow.

import type { Cluster } from '../api/types';
import { amount, part, percent } from '../format';
import { t } from '../i18n';
import { extent, parts, type Extent } from '../store/growth';

const GAUGES = [
  { share: 'cpu', resource: 'CPU' },
  { share: 'gpu', resource: 'GPU' },
  { share: 'memory', resource: 'memory' },
] as const;

/** One gauge for each resource that the cluster has, or will have once it has grown. */
export function Gauges({ cluster }: { cluster: Cluster }) {
  const threshold = cluster.limits.resource_threshold;
  const known = cluster.total !== undefined;
  return (
    <div class="gauges">
      {GAUGES.map(({ share, resource }) => {
        const size = extent(cluster, resource);
        if (resource === 'GPU' && size.end === 0) return null;
        const full = cluster.logical[share];
        const taken = (cluster.used?.[resource] ?? 0) + (cluster.promised[resource] ?? 0);
        const label = resource === 'memory' ? t('memory') : resource;
        const limit = t('gauge.threshold', { share: percent(threshold) });
        const grows = size.end > size.there && {
          size,
          text: t('gauge.elastic', {
            used: amount(resource, taken),
            there: amount(resource, size.there),
            grown: amount(resource, size.grown),
          }),
        };
        return (
          <div class="gauge" key={share}>
            <span>{label}</span>
            <Meter label={label} share={full} threshold={threshold} limit={limit} grows={grows} />
            <span class="gauge-share num">{percent(full)}</span>
            <span class="gauge-amount num muted">{known && size.end > 0 && part(resource, taken, size.grown)}</span>
          </div>
        );
      })}
    </div>
  );
}

interface MeterProps {
  label: string;
  share: number | undefined;
  threshold: number;
  limit: string;
  grows: { size: Extent; text: string } | false;
}

function Meter({ label, share, threshold, limit, grows }: MeterProps) {
  const value = Math.min(1, share ?? 0);
  const { used, coming, there, grown } = grows
    ? parts(value, grows.size)
    : { used: value, coming: 0, there: 1, grown: 1 };
  const from = (start: number, end: number) => ({ left: `${start * 100}%`, width: `${(end - start) * 100}%` });
  return (
    <div
      class={`meter${value > threshold ? ' meter-over' : ''}${grows ? ' meter-elastic' : ''}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(value * 100)}
      aria-valuetext={grows ? `${percent(share)}: ${grows.text}` : undefined}
      title={grows ? `${grows.text}\n${limit}` : limit}
    >
      {grows && (
        <>
          <div class="meter-max" style={from(there, 1)} />
          <div class="meter-grown" style={from(there, grown)} />
          <div class="meter-there" style={from(0, there)} />
          {coming > 0 && <div class="meter-coming" style={from(there, there + coming)} />}
        </>
      )}
      <div class="meter-fill" style={{ transform: `scaleX(${used})` }} />
      {threshold < 1 && grown > 0 && <div class="meter-mark" style={{ left: `${threshold * grown * 100}%` }} />}
    </div>
  );
}
