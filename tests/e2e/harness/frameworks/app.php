<?php
// The PHP origin of the framework matrix: says how the ways that PHP applications find their route read the request.
//
// As a router script (`php -S ADDRESS app.php`) PHP gives it every request; as `index.php` of a directory it is a front controller, which gets
// what follows its name as PATH_INFO.

const LIMITED = '/auth/sendOTP';

$uri = $_SERVER['REQUEST_URI'];

// Plain PHP: parse_url() of the request target. It is false for a target that it cannot read.
$plain = parse_url($uri, PHP_URL_PATH);

// FastRoute's manual, Guzzle, Nyholm: the target up to its query.
$upToQuery = strtok($uri, '?');

// Slim, CodeIgniter: the target behind a host of their own.
$behindHost = parse_url('http://host' . $uri, PHP_URL_PATH);

// Symfony (HttpFoundation's prepareRequestUri, prepareBaseUrl and preparePathInfo, shortened): an absolute target is read as one, a fragment is
// cut, the name of the script is taken off the beginning, whether a slash follows it or not. Laravel trims the result.
function symfony(string $uri, string $script): string
{
    if ($uri !== '' && $uri[0] === '/') {
        $uri = explode('#', $uri)[0];
    } else {
        $parts = parse_url($uri) ?: [];
        $uri = ($parts['path'] ?? '') . (isset($parts['query']) ? '?' . $parts['query'] : '');
    }
    $path = rawurldecode(explode('?', $uri)[0]);
    foreach ([$script, rtrim(dirname($script), '/') . '/'] as $base) {
        if (str_starts_with($path, $base)) {
            return '/' . preg_replace('#^/#', '', substr($path, strlen($base)));
        }
    }
    return $path;
}

// The real Laravel, where it is installed.
function laravel(): ?string
{
    $autoload = '/usr/share/php/Illuminate/Http/autoload.php';
    if (!file_exists($autoload)) {
        return null;
    }
    require_once $autoload;
    return '/' . Illuminate\Http\Request::capture()->decodedPath();
}

// CodeIgniter 3 (CI_URI::_parse_request_uri, _remove_relative_directory and _set_uri_string, shortened): the name of the script is taken off, then
// `..` and blanks around names.
function codeIgniter(string $uri, string $script): string
{
    $path = parse_url('http://dummy' . $uri, PHP_URL_PATH) ?: '';
    // PHP's own server has a part of the path for the name of a router script. Nobody runs CodeIgniter so.
    $isScript = str_ends_with($script, '.php');
    foreach ($isScript ? [$script, dirname($script)] : [] as $base) {
        if (str_starts_with($path, $base)) {
            $path = substr($path, strlen($base));
            break;
        }
    }
    return withoutEmptyNames($path, ['..']);
}

function withoutEmptyNames(string $path, array $dropped): string
{
    $names = array_map(trim(...), array_diff(explode('/', $path), $dropped));
    return '/' . implode('/', array_filter($names, fn ($name) => $name !== ''));
}

// What stands before the routes of an application that lies in a folder.
$folder = rtrim(dirname($_SERVER['SCRIPT_NAME']), '/');

// CodeIgniter (CI_URI::_parse_request_uri, shortened): where the path ends with the script or its folder, a query that begins with a slash is
// the route, for servers that know no PATH_INFO.
function inQuery(string $uri, string $folder): ?string
{
    $path = parse_url('http://dummy' . $uri, PHP_URL_PATH) ?: '';
    foreach ([$_SERVER['SCRIPT_NAME'], $folder] as $base) {
        if ($base !== '' && str_starts_with($path, $base)) {
            $path = substr($path, strlen($base));
            break;
        }
    }
    $query = $_SERVER['QUERY_STRING'] ?? '';
    if (trim($path, '/') !== '' || !str_starts_with($query, '/')) {
        return null;
    }
    return $folder . explode('?', explode('&', rawurldecode($query))[0])[0];
}

$read = [
    'parse_url' => is_string($plain) ? rawurldecode($plain) : null,
    'up_to_query' => is_string($upToQuery) ? rawurldecode($upToQuery) : null,
    'behind_host' => is_string($behindHost) ? rawurldecode($behindHost) : null,
    // A common slip: what was escaped ends the path.
    'decoded_first' => parse_url(urldecode($uri), PHP_URL_PATH) ?: null,
    'symfony' => symfony($uri, $_SERVER['SCRIPT_NAME']),
    'laravel' => laravel(),
    'codeigniter' => codeIgniter($uri, $_SERVER['SCRIPT_NAME']),
    // CodeIgniter 4 parses PATH_INFO as a URL.
    'codeigniter_path_info' => isset($_SERVER['PATH_INFO'])
        ? withoutEmptyNames(preg_split('/[?#]/', $_SERVER['PATH_INFO'])[0], []) : null,
    // What the rewriting of Apache made of the path.
    'url' => isset($_GET['url']) && is_string($_GET['url']) ? '/' . ltrim($_GET['url'], '/') : null,
    'path_info' => $_SERVER['PATH_INFO'] ?? null,
    'in_folder' => isset($_SERVER['PATH_INFO']) ? $folder . $_SERVER['PATH_INFO'] : null,
    'in_query' => inQuery($uri, $folder),
];

$limited = false;
foreach ($read as $path) {
    $limited = $limited || ($path !== null && rtrim($path, '/') === LIMITED);
}

function values(array $of): object
{
    $values = [];
    foreach ($of as $name => $value) {
        $flat = [];
        $value = [$value];
        array_walk_recursive($value, function ($one) use (&$flat) { $flat[] = (string) $one; });
        $values[(string) $name] = $flat;
    }
    return (object) $values;
}

// What look-ups in the one place and in $_REQUEST give.
function lookups(array $of): object
{
    $found = values($of);
    foreach (values($_REQUEST) as $name => $values) {
        $found->$name = array_values(array_unique([...($found->$name ?? []), ...$values]));
    }
    return $found;
}

$headers = [];
foreach ($_SERVER as $name => $value) {
    if (str_starts_with($name, 'HTTP_')) {
        $headers[strtolower(strtr(substr($name, 5), '_', '-'))] = $value;
    }
}

header('Content-Type: application/json');
header('X-Dispatched: ' . ($limited ? 'limited' : 'other'));
echo json_encode([
    'limited' => $limited,
    'read' => $read,
    'method' => $_SERVER['REQUEST_METHOD'],
    'form' => lookups($_POST),
    'query' => lookups($_GET),
    'cookie' => values($_COOKIE),
    'header' => values($headers),
], JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
