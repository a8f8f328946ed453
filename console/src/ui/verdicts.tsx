// The verdict of each cluster: its score, policy by policy, or the reason against it.

import type { ClusterVerdict } from '../api/types';
import { number } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';

export function Verdicts({ verdicts }: { verdicts: ClusterVerdict[] }) {
  const policies = [...new Set(verdicts.flatMap((each) => each.parts?.map((part) => part.policy) ?? []))];
  const scored = verdicts.some((each) => each.score !== undefined);
  const columns = policies.length + Number(scored);
  return (
    <div class="scroll-x">
      <table class="verdicts">
        <thead>
          <tr>
            <th scope="col">{t('cluster')}</th>
            <th scope="col">{t('verdict')}</th>
            <th scope="col">{t('verdict.text')}</th>
            {policies.map((policy) => (
              <th scope="col" class="right" key={policy}>
                {policy}
              </th>
            ))}
            {scored && (
              <th scope="col" class="right">
                {policies.length > 0 ? t('total') : t('score')}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {verdicts.map((each) => (
            <tr key={each.cluster}>
              <th scope="row">
                <a href={link.cluster(each.cluster)}>{each.cluster}</a>
              </th>
              <td>
                <span class={`chip chip-${tone(each)}`} data-reason={each.reason}>
                  {word('is', each.reason ?? each.verdict)}
                </span>
              </td>
              {/* A reason has the room of the scores that are not there. */}
              <td class="muted" title={each.text} colSpan={each.score === undefined ? 1 + columns : 1}>
                {/* For the others, the score is the explanation. */}
                {each.score === undefined && <span class="clamp">{each.text}</span>}
                {each.grows_by !== undefined && <span>{t('verdict.grows', { n: each.grows_by })}</span>}
                {each.others?.map((other) => (
                  <span class="clamp" key={other.reason}>
                    {t('verdict.also', { text: other.text })}
                  </span>
                ))}
              </td>
              {each.score !== undefined && (
                <>
                  {policies.map((policy) => (
                    <td class="right num" key={policy}>
                      {score(each.parts?.find((part) => part.policy === policy)?.score)}
                    </td>
                  ))}
                  <td class="right num strong">{score(each.score)}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const score = (value: number | undefined): string => (value === undefined ? '' : number(value, 3));

function tone({ verdict }: ClusterVerdict): string {
  return verdict === 'chosen' ? 'good' : verdict === 'eligible' ? 'accent' : 'idle';
}

/** The lines of an explanation that are not about one cluster: those are in the table. */
export function inGeneral(summary: string, verdicts: ClusterVerdict[]): string[] {
  const isAboutOne = (line: string): boolean =>
    verdicts.some(({ cluster }) => line.startsWith(`${cluster}: `) || line.startsWith(`${cluster}：`));
  return summary.split('\n').filter((line) => !isAboutOne(line));
}

/** Of a job on its cluster: what there is to say, if that is more than the state. */
export function standing(summary: string | undefined): string | undefined {
  const [, rest] = /^[^()（）]*[(（][^()（）]*[)）](.*)$/s.exec(summary ?? '') ?? [];
  return rest ? summary : undefined;
}

/** The same in one line: `centos: too soon · mac: over its threshold`. */
export function reasonsInShort(verdicts: ClusterVerdict[]): string {
  return verdicts
    .filter((each) => each.reason)
    .map((each) => `${each.cluster}: ${word('is', each.reason!)}`)
    .join(' · ');
}

/** For narrow places: the reason alone where all clusters have the same. */
export function reasonsInOne(verdicts: ClusterVerdict[]): string {
  const [first, ...more] = new Set(verdicts.map((each) => each.reason));
  return first && more.length === 0 ? word('is', first) : reasonsInShort(verdicts);
}
