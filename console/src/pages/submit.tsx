// Submit a job from a form, with a preview of where it would go.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ApiError, get, post, segment } from '../api/client';
import type { Accepted, ClusterVerdict, JobDetail, JobRequest, WhatIf } from '../api/types';
import { percent } from '../format';
import { t } from '../i18n';
import { go, link, params } from '../router';
import { upload } from '../store/packages';
import { clusters } from '../store/pool';
import { mayNot } from '../store/may';
import { useResource } from '../store/resource';
import { Act } from '../ui/act';
import { Problem, toast } from '../ui/feedback';
import { Verdicts } from '../ui/verdicts';
import { BLANK, FieldError, like, request, type Fields } from './request';

/** Resources of the job's tasks, and of its command. */
const NEEDS = ['cpus', 'gpus', 'memory'] as const;
const OWN = ['ownCpus', 'ownGpus', 'ownMemory'] as const;
type NumberField = (typeof NEEDS)[number] | (typeof OWN)[number] | 'priority' | 'retries';

export function SubmitPage() {
  useResource(clusters);
  const fields = useSignal<Fields>(BLANK);
  const file = useSignal<File | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const secrets = useSignal<string[]>([]);
  /** While it is sent: the share of the upload, if there is one. */
  const busy = useSignal<number | undefined>(undefined);
  /** The parts for few are open if they have something. */
  const open = useSignal(false);
  const model = params.value.get('like');

  useEffect(() => {
    if (!model) return undefined;
    const abort = new AbortController();
    get<JobDetail>(`/v1/jobs/${segment(model)}`, {}, abort.signal).then(
      (job) => {
        const made = like(job);
        fields.value = made.fields;
        secrets.value = made.secrets;
        open.value = true;
      },
      (problem: unknown) => problem instanceof ApiError && (error.value = problem),
    );
    return () => abort.abort();
  }, [model]);

  const change = (event: {
    currentTarget: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  }): void => {
    const input = event.currentTarget;
    const value =
      input instanceof HTMLInputElement && input.type === 'checkbox' ? input.checked : input.value;
    fields.value = { ...fields.value, [input.name]: value };
  };
  const wrong = problemOf(fields.value);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (wrong) {
      document.querySelector<HTMLElement>(`[name=${wrong.field}]`)?.focus();
      return;
    }
    busy.value = 0;
    error.value = undefined;
    try {
      const workingDir = file.value && (await upload(file.value, (share) => (busy.value = share)));
      const sent = request(fields.value, workingDir);
      const { id, duplicate, notices } = await post<Accepted>('/v1/jobs', sent);
      if (duplicate) toast(t('submit.same'));
      notices?.forEach((notice) => toast(notice));
      go(link.job(id));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      error.value = problem;
    } finally {
      busy.value = undefined;
    }
  };
  const text = (name: 'tags' | 'id' | 'ownCustom', label: string, hint: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        value={fields.value[name]}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        aria-invalid={wrong?.field === name}
        onInput={change}
      />
      {wrong?.field === name && <span class="bad">{wrong.message}</span>}
    </label>
  );
  const number = (name: NumberField, label: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        type="number"
        min={name === 'priority' ? undefined : 0}
        step={name === 'priority' || name === 'retries' ? 1 : 'any'}
        value={fields.value[name]}
        placeholder="0"
        onInput={change}
      />
    </label>
  );
  const area = (name: 'env' | 'vars', label: string, hint: string) => (
    <label class="field">
      <span>{label}</span>
      <textarea
        name={name}
        class="mono"
        rows={Math.min(10, Math.max(2, fields.value[name].split('\n').length))}
        value={fields.value[name]}
        placeholder={hint}
        spellcheck={false}
        aria-invalid={wrong?.field === name}
        onInput={change}
      />
      {wrong?.field === name && <span class="bad">{wrong.message}</span>}
    </label>
  );
  const three = (names: typeof NEEDS | typeof OWN, legend: string | undefined, hint: string) => (
    <fieldset>
      {legend && <legend>{legend}</legend>}
      <p class="muted">{hint}</p>
      <div class="field-row">
        {number(names[0], 'CPU')}
        {number(names[1], 'GPU')}
        {number(names[2], t('submit.memory'))}
      </div>
    </fieldset>
  );
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t('submit')}</h1>
        {model && <span class="muted">{t('submit.like', { id: model })}</span>}
      </header>
      <div class="split split-even">
        <form class="panel form" onSubmit={(event) => void submit(event)}>
          <label class="field">
            <span>{t('job.entrypoint')}</span>
            <textarea
              name="entrypoint"
              class="mono"
              rows={3}
              required
              value={fields.value.entrypoint}
              placeholder="python train.py --epochs 3"
              spellcheck={false}
              onInput={change}
            />
          </label>
          {three(NEEDS, t('submit.needs'), t('submit.needsHint'))}
          <div class="field-row">
            <label class="field">
              <span>{t('submit.cluster')}</span>
              <select name="cluster" value={fields.value.cluster} onChange={change}>
                <option value="">{t('jobs.anyCluster')}</option>
                {clusters.data.value?.map((each) => (
                  <option value={each.name} key={each.name}>
                    {each.name}
                  </option>
                ))}
              </select>
            </label>
            <label class="check">
              <input
                type="checkbox"
                name="required"
                checked={fields.value.required}
                disabled={!fields.value.cluster}
                onChange={change}
              />
              <span>{t('submit.required')}</span>
            </label>
          </div>
          {text('tags', t('tags'), 'linux, nightly')}
          <div class="field-row">
            {number('priority', t('job.priority'))}
            {number('retries', t('submit.retries'))}
          </div>
          {text('id', t('job.id'), t('submit.idHint'))}
          <details open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
            <summary>{t('submit.environment')}</summary>
            <label class="field">
              <span>{t('submit.zip')}</span>
              <input
                type="file"
                name="workingDir"
                accept=".zip,application/zip"
                onChange={(event) => (file.value = event.currentTarget.files?.[0])}
              />
            </label>
            {area('vars', t('submit.vars'), 'MODE=nightly')}
            {secrets.value.length > 0 && (
              <p class="card-note" data-secrets>
                {t('submit.secrets', { names: secrets.value.join(', ') })}
              </p>
            )}
            {area('env', t('submit.env'), '{"pip": ["pandas"]}')}
          </details>
          <details open={open.value && hasOwn(fields.value)}>
            <summary>{t('submit.own')}</summary>
            {three(OWN, undefined, t('submit.ownHint'))}
            {text('ownCustom', t('submit.ownCustom'), 'TPU=1, licence=2')}
          </details>
          {error.value && <Problem error={error.value} />}
          <div class="actions">
            <Act needs="submit" type="submit" class="primary" disabled={busy.value !== undefined}>
              {t('submit.send')}
            </Act>
            {busy.value !== undefined && file.value && (
              <span class="muted num" role="status">
                {t('submit.uploading', { share: percent(busy.value) })}
              </span>
            )}
            {mayNot('submit') && <span class="muted">{mayNot('submit')}</span>}
          </div>
        </form>
        <Preview job={previewed(fields.value)} />
      </div>
    </div>
  );
}

function hasOwn(fields: Fields): boolean {
  return OWN.some((name) => fields[name] !== '') || fields.ownCustom !== '';
}

function problemOf(fields: Fields): FieldError | undefined {
  try {
    request(fields);
    return undefined;
  } catch (problem) {
    if (!(problem instanceof FieldError)) throw problem;
    return problem;
  }
}

/** A field that cannot be read says so itself: the preview goes without the environment. */
function previewed(fields: Fields): JobRequest {
  return problemOf(fields) ? request({ ...fields, env: '', vars: '', ownCustom: '' }) : request(fields);
}

function whereTo(cluster: string, verdicts: ClusterVerdict[]): string {
  const n = verdicts.find((each) => each.cluster === cluster)?.grows_by;
  return n ? t('preview.grows', { cluster, n }) : t('preview.chosen', { cluster });
}

/** Where the job would go now: updated when the form changes, and every two seconds. */
function Preview({ job }: { job: JobRequest }) {
  const answer = useSignal<WhatIf | ApiError | undefined>(undefined);
  // The answer does not depend on the command, which may still be empty.
  const { id: _, ...shape } = { ...job, entrypoint: 'true' };
  const question = JSON.stringify(shape);
  useEffect(() => {
    const abort = new AbortController();
    const ask = (): void => {
      post<WhatIf>('/v1/what-if', JSON.parse(question), abort.signal).then(
        (given) => (answer.value = given),
        (problem: unknown) => problem instanceof ApiError && (answer.value = problem),
      );
    };
    const first = setTimeout(ask, 250);
    const again = setInterval(ask, 2000);
    return () => {
      clearTimeout(first);
      clearInterval(again);
      abort.abort();
    };
  }, [question]);

  const given = answer.value;
  return (
    <section class="panel preview" aria-labelledby="preview-title" aria-live="polite">
      <header>
        <h2 id="preview-title">{t('preview')}</h2>
      </header>
      {given instanceof ApiError ? (
        <Problem error={given} />
      ) : given ? (
        <>
          <p class="preview-answer" data-chosen={given.chosen ?? ''}>
            {given.refused
              ? t('preview.refused', { why: given.refused })
              : given.chosen
                ? whereTo(given.chosen, given.clusters)
                : t('preview.waits')}
          </p>
          {given.notices?.map((notice) => (
            <p class="card-note preview-notice" key={notice}>
              {notice}
            </p>
          ))}
          <Verdicts verdicts={given.clusters} />
        </>
      ) : (
        <p class="muted panel-foot">{t('preview.asking')}</p>
      )}
    </section>
  );
}
