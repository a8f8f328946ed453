// The frame around every page: navigation, the state of the connection, shortcuts.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { duration } from './format';
import { t, type Key } from './i18n';
import { AdvicePage } from './pages/advice';
import { ClusterPage } from './pages/cluster';
import { EventsPage } from './pages/events';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { OverviewPage } from './pages/overview';
import { OwnersPage } from './pages/owners';
import { QueuePage } from './pages/queue';
import { SubmitPage } from './pages/submit';
import { TimelinePage } from './pages/timeline';
import { link, route, visits } from './router';
import { now } from './store/clock';
import { awaySince, connection, leaderless } from './store/live';
import { pool } from './store/pool';
import { ConfirmDialog } from './ui/dialog';
import { Empty, Toasts } from './ui/feedback';
import { Help, listenForShortcuts } from './ui/help';
import { AlertIcon } from './ui/icons';
import { Ago } from './ui/time';
import { Sidebar } from './ui/sidebar';

export function App() {
  useEffect(listenForShortcuts, []);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        {t('skip')}
      </a>
      <Sidebar />
      <main id="main" tabIndex={-1}>
        <Banner />
        <ConfigBanner />
        <CurrentPage />
      </main>
      <ConfirmDialog />
      <Help />
      <Toasts />
    </>
  );
}

/** The router owns the hash, so the link cannot jump there. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function CurrentPage() {
  const here = route.value;
  const name = 'name' in here ? here.name : '';
  const title = name || (here.page === 'missing' ? t('missing') : t(here.page as Key));
  const first = useRef(true);
  useLayoutEffect(() => {
    document.title = `${title} · Ray multicluster`;
  }, [title]);
  // Keyboard and screen reader users start at the top of the new page. In the layout effect: a
  // moment later the user may already be typing.
  useLayoutEffect(() => {
    const main = document.getElementById('main');
    if (!first.current) main?.focus({ preventScroll: true });
    first.current = false;
  }, [here.page, name]);
  // Back to a page leads to where it was scrolled to; a link leads to its top.
  const visit = visits.current;
  useLayoutEffect(() => {
    const main = document.getElementById('main');
    main?.scrollTo(0, visits.topOf(visit));
    const keep = (): void => visits.leave(visit, main?.scrollTop ?? 0);
    main?.addEventListener('scroll', keep, { passive: true });
    return () => main?.removeEventListener('scroll', keep);
  }, [here.page, name, visit]);
  switch (here.page) {
    case 'overview':
      return <OverviewPage />;
    case 'jobs':
      return <JobsPage />;
    case 'job':
      return <JobPage id={here.name} key={here.name} />;
    case 'queue':
      return <QueuePage />;
    case 'owners':
      return <OwnersPage />;
    case 'advice':
      return <AdvicePage />;
    case 'cluster':
      return <ClusterPage name={here.name} key={here.name} />;
    case 'timeline':
      return <TimelinePage />;
    case 'events':
      return <EventsPage />;
    case 'submit':
      return <SubmitPage />;
    case 'missing':
      return (
        <div class="page">
          <section class="panel">
            <Empty title={t('missing')}>
              <a href={link.overview}>{t('overview')}</a>
            </Empty>
          </section>
        </div>
      );
  }
}

/** The control plane is not responding, or no replica leads it: the page shows old data. */
function Banner() {
  if (connection.value !== 'away' && leaderless.value > 0) {
    return (
      <div class="banner" role="status">
        <span class="spinner" aria-hidden="true" />
        <b>
          {t('leaderless')} {t('status.leaderless')}
        </b>
      </div>
    );
  }
  if (connection.value !== 'away') return null;
  return (
    <div class="banner" role="status">
      <span class="spinner" aria-hidden="true" />
      <b>
        {t('away')} {t('status.away')}
      </b>
      {awaySince.value !== undefined && (
        <span class="num">{t('away.since', { time: duration(now.value - awaySince.value) })}</span>
      )}
    </div>
  );
}

/** The configuration file was changed and refused. The sidebar keeps the data fresh. */
function ConfigBanner() {
  const problem = pool.data.value?.config_problem;
  if (!problem) return null;
  const [first, ...more] = problem.message.trim().split('\n');
  return (
    <div class="banner banner-bad" role="alert" data-config-problem>
      <AlertIcon />
      <details open={false}>
        <summary>
          <b>{t('config.refused')}</b> {first}{' '}
          <span class="muted">
            <Ago at={problem.at} />
          </span>
        </summary>
        {more.length > 0 && <pre>{more.join('\n')}</pre>}
        <p>{t('config.stays')}</p>
      </details>
    </div>
  );
}
