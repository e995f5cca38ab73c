<?php

// Writes the plugin, stint.php, as one file: the client and the plugin. "php wordpress/build.php -" prints it.

declare(strict_types=1);

$plugin = <<<'HEADER'
<?php
/**
 * Plugin Name: Stint
 * Description: Asks a Stint server about logins and requests, by the form, XML-RPC and application passwords, and reports what came of them.
 * Version: 0.1.0
 * Requires PHP: 8.1
 * Requires at least: 5.6
 * License: MIT
 *
 * This file is made of ../src and plugin.php by build.php. The settings are constants in wp-config.php; see docs/CLIENTS.md.
 */

declare(strict_types=1);

HEADER;
foreach (['../src/Client.php', '../src/Refusal.php', 'plugin.php'] as $file) {
    $plugin .= "\n" . trim(str_replace(["<?php\n", "declare(strict_types=1);\n"], '', file_get_contents(__DIR__ . "/$file"))) . "\n";
}
if (($argv[1] ?? '') === '-') {
    echo $plugin;
} else {
    file_put_contents(__DIR__ . '/stint.php', $plugin);
}
