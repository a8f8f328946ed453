// What every cluster said to a piece of work: scores policy by policy, or why not.

import type { Verdict } from '../api/types';
import { number } from '../format';
import { t, word } from '../i18n';
import { link } from '../router';

export function Verdicts({ verdicts }: { verdicts: Verdict[] }) {
  const policies = [...new Set(verdicts.flatMap((each) => each.parts?.map((part) => part.policy) ?? []))];
  const scored = verdicts.some((each) => each.score !== undefined);
  return (
    <div class="scroll-x">
      <table class="verdicts">
        <thead>
          <tr>
            <th scope="col">{t('cluster')}</th>
            <th scope="col">{t('verdict')}</th>
            <th scope="col">{t('verdict.words')}</th>
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
            <tr key={each.cluster} class={`verdict-${each.verdict}`}>
              <th scope="row">
                <a href={link.cluster(each.cluster)}>{each.cluster}</a>
              </th>
              <td>
                <span class={`chip chip-${tone(each)}`} data-reason={each.reason}>
                  {each.reason ? word('reason', each.reason) : word('verdict', each.verdict)}
                </span>
              </td>
              <td class="muted" title={each.text}>
                {/* Of those that could, the score says it all. */}
                {each.score === undefined && <span class="clamp">{each.text}</span>}
              </td>
              {policies.map((policy) => (
                <td class="right num" key={policy}>
                  {score(each.parts?.find((part) => part.policy === policy)?.score)}
                </td>
              ))}
              {scored && <td class="right num strong">{score(each.score)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const score = (value: number | undefined): string => (value === undefined ? '' : number(value, 3));

function tone({ verdict }: Verdict): string {
  return verdict === 'chosen' ? 'good' : verdict === 'eligible' ? 'accent' : 'idle';
}

/** The same in one line: `centos: too soon · mac: over its threshold`. */
export function reasonsInShort(verdicts: Verdict[]): string {
  return verdicts
    .filter((each) => each.reason)
    .map((each) => `${each.cluster}: ${word('reason', each.reason!)}`)
    .join(' · ');
}
