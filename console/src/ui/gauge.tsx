// The utilization of a cluster's resources, with its threshold.

import type { Cluster } from '../api/types';
import { part, percent } from '../format';
import { t } from '../i18n';

const GAUGES = [
  { share: 'cpu', resource: 'CPU' },
  { share: 'gpu', resource: 'GPU' },
  { share: 'memory', resource: 'memory' },
] as const;

/** One gauge for each resource that the cluster has. */
export function Gauges({ cluster }: { cluster: Cluster }) {
  const threshold = cluster.limits.resource_threshold;
  const total = cluster.total ?? {};
  return (
    <div class="gauges">
      {GAUGES.filter(({ resource }) => resource !== 'GPU' || total[resource]).map(({ share, resource }) => {
        const full = cluster.logical[share];
        const all = total[resource];
        // Amounts of zero are left out of the facts.
        const taken = (cluster.used?.[resource] ?? 0) + (cluster.promised[resource] ?? 0);
        const label = resource === 'memory' ? t('memory') : resource;
        return (
          <div class="gauge" key={share}>
            <span>{label}</span>
            <Meter label={label} share={full} threshold={threshold} />
            <span class="gauge-share num">{percent(full)}</span>
            <span class="gauge-amount num muted">{all !== undefined && part(resource, taken, all)}</span>
          </div>
        );
      })}
    </div>
  );
}

function Meter({ label, share, threshold }: { label: string; share: number | undefined; threshold: number }) {
  const value = Math.min(1, share ?? 0);
  return (
    <div
      class={value > threshold ? 'meter meter-over' : 'meter'}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(value * 100)}
      title={t('gauge.threshold', { share: percent(threshold) })}
    >
      <div class="meter-fill" style={{ transform: `scaleX(${value})` }} />
      {threshold < 1 && <div class="meter-mark" style={{ left: `${threshold * 100}%` }} />}
    </div>
  );
}
